package sleep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/scenariotest"
	"github.com/slipway-k8s/slipway/launcher/sleep"
)

// nights are ten hours from eight in the evening on.
const nights = `- {schedule: "0 20 * * *", duration: 10h}`

// at returns a time of the tests' night.
func at(hour, minute, second int) time.Time {
	return time.Date(2026, 11, 26, hour, minute, second, 0, time.UTC)
}

// world is a cluster of one node of slipway's and one of another's.
type world struct {
	*scenariotest.Scene
	t      *testing.T
	keeper *sleep.Keeper
	// evicted are the names of the pods that were, and refuses are those that a budget keeps.
	evicted []string
	refuses map[string]bool
	events  []string
}

// Eventf implements announce.EventRecorder.
func (w *world) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	if _, of := o.(*corev1.Namespace); of {
		w.events = append(w.events, reason+": "+fmt.Sprintf(format, args...))
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Scene: scenariotest.New(t), t: t, refuses: map[string]bool{}}
	evicting := interceptor.NewClient(w.API.(client.WithWatch), interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			if w.refuses[o.GetName()] {
				return apierrors.NewTooManyRequests("the budget keeps it", 1)
			}
			w.evicted = append(w.evicted, o.GetName())
			return c.Delete(ctx, o)
		},
	})
	var err error
	w.keeper, err = sleep.New(sleep.Config{Client: evicting, Guard: leadershiptest.Always{}, Events: w, Ours: func(*karpv1.NodeClaim) bool { return true }, Registerer: prometheus.NewRegistry()})
	w.Must(err)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	claim.Status.NodeName = "one"
	w.create(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, claim,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "shop", Annotations: map[string]string{window.SleepAnnotation: nights}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "awake", UID: "awake"}})
	return w
}

func (w *world) create(list ...client.Object) {
	w.t.Helper()
	for _, o := range list {
		w.Must(w.API.Create(w.t.Context(), o))
	}
}

// pod creates a running pod of a ReplicaSet, three hours old.
func (w *world) pod(namespace, name string, change func(*corev1.Pod)) {
	w.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at(17, 0, 0))}}
	p.OwnerReferences = []metav1.OwnerReference{owner("apps/v1", "ReplicaSet")}
	p.Spec.NodeName, p.Status.Phase = "one", corev1.PodRunning
	if change != nil {
		change(p)
	}
	w.create(p)
}

func owner(version, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "owner", UID: "owner", Controller: new(true)}
}

// pass lets time pass by seconds up to the last one, and returns the pods that were evicted, sorted.
func (w *world) pass(from time.Time, seconds int) []string {
	w.t.Helper()
	w.evicted = nil
	for i := range seconds {
		w.Must(w.keeper.Pass(w.t.Context(), from.Add(time.Duration(i)*time.Second)))
	}
	slices.Sort(w.evicted)
	return w.evicted
}

// Pods that a controller creates again are evicted, once the scheduler knows of the sleep too. All others stay, and the Event says why.
func TestWhoSleeps(t *testing.T) {
	w := newWorld(t)
	w.pod("shop", "web", nil)
	w.pod("awake", "other-namespace", nil)
	for name, change := range map[string]func(*corev1.Pod){
		"bare":      func(p *corev1.Pod) { p.OwnerReferences = nil },
		"job":       func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{owner("batch/v1", "Job")} },
		"agent":     func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{owner("apps/v1", "DaemonSet")} },
		"static":    func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{owner("v1", "Node")} },
		"protected": func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} },
		"elsewhere": func(p *corev1.Pod) { p.Spec.NodeName = "other" },
		"done":      func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"pending":   func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"late":      func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at(20, 30, 0)) },
		"stateful":  func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{owner("apps/v1", "StatefulSet")} },
	} {
		w.pod("shop", name, change)
	}
	if got := w.pass(at(19, 59, 0), 60); len(got) > 0 {
		t.Errorf("before the sleep %v were evicted", got)
	}
	if got := w.pass(at(20, 0, 0), 3); len(got) > 0 {
		t.Errorf("at once %v were evicted", got)
	}
	if got := w.pass(at(20, 0, 3), 60); !slices.Equal(got, []string{"stateful", "web"}) {
		t.Errorf("%v were evicted", got)
	}
	want := "NamespaceAsleep: It sleeps until 2026-11-27T06:00:00Z: to evict: 2 pods; 1 stay: created since the sleep began, by another scheduler; " +
		"1 stay: of Jobs, which end by themselves; 1 stay: on nodes that slipway may not disrupt; 1 stay: with do-not-disrupt; " +
		"1 stay: without a controller that would create it again"
	if len(w.events) != 1 || w.events[0] != want {
		t.Errorf("events %q, want %q", w.events, want)
	}
	if got := w.pass(at(24+5, 50, 0), 60); len(got) > 0 {
		t.Errorf("shortly before the end %v were evicted", got)
	}
	w.pass(at(24+6, 0, 0), 1)
	if last := w.events[len(w.events)-1]; !strings.HasPrefix(last, "NamespaceAwake") {
		t.Errorf("at the end: %q", last)
	}
}

// A budget delays an eviction, and nothing else. It is said once.
func TestABudgetDelays(t *testing.T) {
	w := newWorld(t)
	w.refuses["guarded"] = true
	w.pod("shop", "guarded", nil)
	for i := range 120 {
		w.pod("shop", fmt.Sprintf("web-%03d", i), nil)
	}
	if got := w.pass(at(20, 0, 0), 5); len(got) == 0 || len(got) > 100 {
		t.Errorf("%d pods were evicted in two seconds", len(got))
	}
	if got := w.pass(at(20, 0, 5), 20); len(got) < 20 || slices.Contains(got, "guarded") {
		t.Errorf("%d pods were evicted", len(got))
	}
	delete(w.refuses, "guarded")
	if got := w.pass(at(20, 0, 30), 30); !slices.Equal(got, []string{"guarded"}) {
		t.Errorf("once the budget allows it %v were evicted", got)
	}
	if said := strings.Count(strings.Join(w.events, "\n"), "SleepDelayed"); said != 1 {
		t.Errorf("%d Events about the budget", said)
	}
}

// What is paused or protected is not disrupted. Windows that cannot be read are no sleep, and an Event says so once; one mistake stops no other namespace.
func TestWhatIsRespected(t *testing.T) {
	w := newWorld(t)
	w.pod("shop", "web", nil)
	wrong := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "wrong", UID: "wrong", Annotations: map[string]string{window.SleepAnnotation: `- {schedule: "0 20 * * *", timeZone: Mars, duration: 10h}`}}}
	w.create(wrong)
	w.pod("wrong", "runs", nil)
	annotate := func(o client.Object, key, value string) {
		w.Must(w.API.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))))
	}
	pool, node := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	annotate(pool, catalog.PausedAnnotation, "true")
	if got := w.pass(at(20, 0, 0), 60); len(got) > 0 {
		t.Errorf("while the NodePool is paused %v were evicted", got)
	}
	annotate(pool, catalog.PausedAnnotation, "false")
	annotate(node, karpv1.DoNotDisruptAnnotationKey, "true")
	if got := w.pass(at(20, 1, 0), 60); len(got) > 0 {
		t.Errorf("from a node with do-not-disrupt %v were evicted", got)
	}
	annotate(node, karpv1.DoNotDisruptAnnotationKey, "false")
	if got := w.pass(at(20, 2, 0), 60); !slices.Equal(got, []string{"web"}) {
		t.Errorf("%v were evicted", got)
	}
	all := strings.Join(w.events, "\n")
	if strings.Count(all, "SleepUnreadable") != 1 || !strings.Contains(all, `[0].timeZone: "Mars" is no time zone`) {
		t.Errorf("events %s", all)
	}
}
