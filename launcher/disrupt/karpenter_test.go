package disrupt_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// ours implements disrupt.Config.
func (f *flow) ours(claim *karpv1.NodeClaim) bool {
	theirs := f.theirs.Load()
	return theirs == nil || !slices.Contains(*theirs, claim.Name)
}

// karpenterDisrupts has a Karpenter begin to disrupt a node, as it does before it launches a replacement.
func (f *flow) karpenterDisrupts(node string) {
	f.t.Helper()
	f.taint(node, "")
	claim := f.claim(f.t.Context(), node)
	claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, "Drifted", "Drifted")
	if err := f.api.Status().Update(f.t.Context(), claim); err != nil {
		f.t.Fatal(err)
	}
}

// taint sets the disruption taint on behalf of by.
func (f *flow) taint(node, by string) {
	f.t.Helper()
	f.change(f.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, func(o client.Object) {
		n := o.(*corev1.Node)
		n.Spec.Taints = append(n.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
		if by != "" {
			n.Annotations = map[string]string{terminate.CordonedByAnnotation: by}
		}
	})
}

// What a Karpenter that was stopped in the middle of a disruption left on a node is removed once slipway is alone, as Karpenter itself does. Cordons of
// others stay, and those of nodes that leave or are another provider's.
func TestTaintThatKarpenterLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t)
		defer func() { f.stop() }()
		for _, name := range []string{"a-left", "b-leaving", "c-reclaimed", "d-other"} {
			f.addNode(t.Context(), name)
		}
		f.create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}})
		f.karpenter.Store(true)
		f.theirs.Store(&[]string{"claim-d-other"})
		for _, name := range []string{"a-left", "b-leaving", "d-other"} {
			f.karpenterDisrupts(name)
		}
		f.taint("c-reclaimed", "empty")
		f.taint("foreign", "")
		if err := f.api.Delete(t.Context(), f.claim(t.Context(), "b-leaving")); err != nil {
			t.Fatal(err)
		}
		const stay = "b-leaving: cordoned leaving because:Drifted\nc-reclaimed: cordoned\nd-other: cordoned because:Drifted\n"
		time.Sleep(time.Minute)
		if got, want := f.report(t.Context()), "a-left: cordoned because:Drifted\n"+stay; got != want {
			t.Errorf("while Karpenter runs:\n%swant:\n%s", got, want)
		}
		f.karpenter.Store(false)
		time.Sleep(6 * time.Second)
		if got, want := f.report(t.Context()), "a-left: serves\n"+stay; got != want {
			t.Errorf("once Karpenter was stopped:\n%swant:\n%s", got, want)
		}
		foreign := &corev1.Node{}
		if err := f.api.Get(t.Context(), client.ObjectKey{Name: "foreign"}, foreign); err != nil || !terminate.Cordoned(foreign) {
			t.Errorf("a node without a NodeClaim was changed: %v", err)
		}
	})
}

// A move is called off when a Karpenter comes back that manages one of its nodes: no NodeClaim of it is deleted. That of a node of slipway's goes on.
func TestKarpenterComesBackDuringMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newPlanner(t, time.Minute)
		defer func() { f.stop() }()
		crowd(t, f, 2)
		time.Sleep(30 * time.Second)
		f.karpenter.Store(true)
		f.theirs.Store(&[]string{"claim-n1"})
		time.Sleep(p.boot)
		got := f.report(t.Context())
		if !strings.Contains(got, "n0: cordoned leaving") || !strings.Contains(got, "n1: serves") ||
			!strings.Contains(got, "n1: DisruptionBlocked: Disruption called off: a running Karpenter manages node n1") {
			t.Error(got)
		}
	})
}
