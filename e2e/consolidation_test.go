package e2e_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/consolidate"
)

// halfEmpty is a fleet of n nodes, each with one pod of Deployment web after the pods that filled them have gone.
func (w *world) halfEmpty(n int, change func(*karpv1.NodePool)) *appsv1.Deployment {
	w.t.Helper()
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		p.Annotations = map[string]string{consolidate.NodeAgeAnnotation: "0s"}
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
		if change != nil {
			change(p)
		}
	})
	filler := w.deployment("filler", int32(n), w.podSpec("1300m", "512Mi", nil))
	web := w.deployment("web", int32(n), w.podSpec("300m", "512Mi", func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}))
	w.awaitRunning(2 * n)
	w.scale(filler, 0)
	return web
}

// budget lets one pod of web be away at a time.
func (w *world) budget() {
	w.t.Helper()
	w.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &intstr.IntOrString{IntVal: 1}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	})
}

// A half-empty fleet shrinks to the node that is enough, while its Deployment keeps the availability that its budget asks for.
func TestConsolidationShrinksAFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "consolidation")
	w.budget()
	w.halfEmpty(4, nil)
	before := len(w.claimsOf(w.name))
	lowest := 4
	w.await(t, "the fleet to shrink to one node", func() bool {
		lowest = min(lowest, w.running())
		return len(w.claimsOf(w.name)) == 1 && w.running() == 4
	})
	if before < 2 {
		t.Fatalf("the fleet had %d nodes: nothing to shrink", before)
	}
	if lowest < 3 {
		t.Errorf("%d pods of web ran at one time, the PodDisruptionBudget lets one be away", lowest)
	}
	if n := len(w.everClaimed(w.name)); n != before {
		t.Errorf("%d nodes were bought, %d were enough: all pods had room on one of them", n, before)
	}
	var events corev1.EventList
	if err := w.client.List(t.Context(), &events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, e := range events.Items {
		for _, c := range w.everClaimed(w.name) {
			if e.InvolvedObject.Name == c.Object.Name {
				said[e.Reason] = true
			}
		}
	}
	for _, want := range []string{"DisruptionLaunching", "DisruptionTerminating"} {
		if !said[want] {
			t.Errorf("no Event %s about any of the NodeClaims, but %s", want, fmt.Sprint(said))
		}
	}
}
