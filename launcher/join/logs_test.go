package join_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The lines that alerts on Karpenter's log look for are there, with the fields that they read.
func TestKarpentersLogLines(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	c := w.controller()
	var lines []string
	logger := funcr.NewJSON(func(line string) { lines = append(lines, line) }, funcr.Options{})
	look := func() {
		t.Helper()
		request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "default-1"}}
		if _, err := c.Reconcile(klog.NewContext(t.Context(), logger), request); err != nil {
			t.Fatal(err)
		}
	}
	look()
	w.kubelet("node-1", corev1.ConditionTrue)
	for range 4 {
		look()
	}
	for _, want := range [][]string{
		{`"msg":"registered nodeclaim"`, `"Node":{"name":"node-1"}`, `"provider-id":"` + w.instance.ProviderID() + `"`},
		{`"msg":"initialized nodeclaim"`, `"Node":{"name":"node-1"}`, `"provider-id":"` + w.instance.ProviderID() + `"`, `"allocatable":{`},
	} {
		found := slices.ContainsFunc(lines, func(line string) bool {
			return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(line, part) })
		})
		if !found {
			t.Errorf("no line with %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
}
