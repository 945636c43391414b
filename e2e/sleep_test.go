package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/window"
)

// sleep sets the windows in which the test's namespace sleeps.
func (w *world) sleep(text string) {
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, window.SleepAnnotation, text))
	if err := persist(w.t.Context(), func() error { return w.client.Patch(w.t.Context(), namespace, patch) }); err != nil {
		w.t.Fatal(err)
	}
}

// asleep counts the pods that wait because the namespace sleeps.
func (w *world) asleep() int {
	n := 0
	for _, p := range w.pods() {
		c := conditions.Pod(p.Object, "slipway.dev/NodeLaunchable")
		if p.Object.Spec.NodeName == "" && c != nil && c.Reason == "Asleep" && strings.Contains(c.Message, "namespace "+w.name+" sleeps until 2") {
			n++
		}
	}
	return n
}

// A namespace that falls asleep keeps the pods that nothing would create again and those that may not be disrupted. The replacements of all others wait, and
// so do new pods, with the reason; nobody's replicas change. The nodes of the others go. Windows that cannot be read are said, and the pods run again.
func TestNamespaceSleeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sleeps")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	})
	spec := w.podSpec("1100m", "1Gi", nil) // Each needs a node for itself.
	web := w.deployment("web", 2, spec)
	w.create(
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "bare"}, Spec: spec},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: w.name, Name: "protected", Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: web.Name, UID: web.UID, Controller: new(true)}},
		}, Spec: spec},
	)
	w.awaitRunning(4)
	w.sleep(`- {schedule: "@daily", duration: 48h}`)
	w.await(t, "the pods asleep, and their nodes gone", func() bool { return w.asleep() == 2 && w.running() == 2 && len(w.claimsOf(w.name)) == 2 })
	w.scale(web, 3)
	w.await(t, "a new pod that waits too", func() bool { return w.asleep() == 3 })
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || *web.Spec.Replicas != 3 {
		t.Errorf("the Deployment has %d replicas, %v", *web.Spec.Replicas, err)
	}
	for _, p := range w.pods() {
		if name := p.Object.Name; (name == "bare" || name == "protected") && (p.Terminating.Seen() || p.Deleted.Seen()) {
			t.Errorf("pod %s was removed", name)
		}
	}
	if n := len(w.everClaimed(w.name)); n != 4 {
		t.Errorf("%d nodes were launched, want the 4 of before", n)
	}
	w.await(t, "the Event", func() bool { return len(w.eventsAbout(w.name, "NamespaceAsleep")) == 1 })
	w.sleep(`- {schedule: "@daily", timeZone: Mars/Olympus, duration: 48h}`)
	w.awaitRunning(5)
	w.await(t, "the Event about the mistake", func() bool {
		list := w.eventsAbout(w.name, "SleepUnreadable")
		return len(list) == 1 && strings.Contains(list[0], `[slipway.dev/sleep][0].timeZone: "Mars/Olympus" is no time zone`)
	})
}
