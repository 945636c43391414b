package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// A pod for which slipway has recorded no reason is shown with what its scheduler says: one that is adopted or another scheduler's, and one that is held by
// its scheduling gates. "Not planned yet" is one about which nothing is said.
func TestStatusSaysWhatTheSchedulerSays(t *testing.T) {
	pod := func(name, spec, conditions string) string {
		return `{metadata: {namespace: default, name: ` + name + `, uid: ` + name + `, creationTimestamp: "` + time.Now().UTC().Format(time.RFC3339) + `"}, ` +
			`spec: {containers: [{name: main}], ` + spec + `}, status: {phase: Pending, conditions: [` + conditions + `]}}`
	}
	pods := []string{
		pod("adopted", "schedulerName: default-scheduler", `{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/2 nodes are available"}`),
		pod("gated", "schedulerName: slipway, schedulingGates: [{name: a}]", `{type: PodScheduled, status: "False", reason: SchedulingGated, message: "Scheduling is blocked"}`),
		pod("new", "schedulerName: slipway", ""),
	}
	config := serve(t, cluster(map[string]any{"/api/v1/pods": object(t, `{items: [`+strings.Join(pods, ", ")+`]}`)}))
	out, _, err := slipway(t, "", "status", "--kubeconfig", config)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"adopted": "0/2 nodes are available", "gated": "Scheduling is blocked", "new": "not planned yet"} {
		_, line, _ := strings.Cut(out, "default/Pod "+name+" for ")
		line, _, _ = strings.Cut(line, "\n")
		if _, got, _ := strings.Cut(line, ": "); got != want {
			t.Errorf("%s: %q, want %q, in\n%s", name, got, want, out)
		}
	}
}

// tables calls a function once two tables are written.
type tables struct {
	bytes.Buffer
	second func()
}

func (w *tables) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Count(w.String(), "Pods: ") == 2 {
		w.second()
	}
	return n, err
}

// A view that repeats itself goes on after a reading that fails, and has what was read before. The first one that fails ends it.
func TestWatchGoesOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := 0
	config := serve(t, cluster(map[string]any{"/api/v1/pods": func() any {
		if reads++; reads == 2 {
			return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is away")
		}
		return json.RawMessage(`{"items": []}`)
	}}))
	out, errs := &tables{second: cancel}, &bytes.Buffer{}
	cmd := newCommand()
	cmd.SetOut(out)
	cmd.SetErr(errs)
	cmd.SetArgs([]string{"status", "--watch", "--interval", "1s", "--kubeconfig", config})
	if err := cmd.ExecuteContext(ctx); err != nil || reads != 3 {
		t.Errorf("it ended with %v after %d readings\n%s", err, reads, out)
	}
	if strings.Count(errs.String(), "etcd is away") != 1 {
		t.Errorf("the error is said as %q", errs)
	}
	config = serve(t, cluster(map[string]any{"/api/v1/pods": failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is away")}))
	if _, _, err := slipway(t, "", "status", "--watch", "--kubeconfig", config); err == nil || !strings.Contains(err.Error(), "etcd is away") {
		t.Errorf("the first reading fails, and it ended with %v", err)
	}
}

// An API server that does not answer holds no reading for longer than the others.
func TestReadingEnds(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
			if until, ends := ctx.Deadline(); !ends || time.Until(until) > readTakes {
				t.Errorf("a list ends at %s (%t)", until, ends)
			}
			return nil
		},
	}).Build()
	if text, err := (&options{}).reading(t.Context(), c, view.FormatTable); err != nil || !strings.Contains(string(text), "Pods: ") {
		t.Errorf("%s (%v)", text, err)
	}
}
