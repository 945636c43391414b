package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/consolidate"
)

// halfEmpty is a fleet of n nodes, each with one pod of Deployment web after the pods that filled them have gone.
func (w *world) halfEmpty(n int, change func(*karpv1.NodePool)) {
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
	w.deployment("web", int32(n), w.podSpec("300m", "512Mi", func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}))
	w.awaitRunning(2 * n)
	w.scale(filler, 0)
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
	for size := before - 1; size > 0; size-- {
		w.await(t, fmt.Sprintf("the fleet to shrink to %d nodes", size), func() bool {
			lowest = min(lowest, w.running())
			return len(w.claimsOf(w.name)) <= size && (size > 1 || w.running() == 4)
		})
	}
	if before < 2 {
		t.Fatalf("the fleet had %d nodes: nothing to shrink", before)
	}
	if lowest < 3 {
		t.Errorf("%d pods of web ran at one time, the PodDisruptionBudget lets one be away", lowest)
	}
	if n := len(w.everClaimed(w.name)); n != before {
		t.Errorf("%d nodes were bought, %d were enough: all pods had room on one of them", n, before)
	}
	for _, want := range []string{"DisruptionLaunching", "DisruptionTerminating"} {
		if len(w.toldOf(want)) == 0 {
			t.Errorf("no Event %s about any of the NodeClaims", want)
		}
	}
}

// toldOf are the messages of Events of a reason about the nodes and NodeClaims of the test.
func (w *world) toldOf(reason string) []string {
	w.t.Helper()
	var events corev1.EventList
	if err := w.client.List(w.t.Context(), &events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range events.Items {
		for _, c := range w.everClaimed(w.name) {
			if e.Reason == reason && e.InvolvedObject.Name == c.Object.Name {
				out = append(out, e.Message)
			}
		}
	}
	return out
}

// The cheaper node that a move wants cannot be had: the move is called off, the pod never leaves its node.
func TestConsolidationIsCalledOffWhenALaunchFails(t *testing.T) {
	w := newWorld(t, "called-off")
	w.halfEmpty(1, func(p *karpv1.NodePool) { onlyTypes(p, "r6a.2xlarge") })
	shared.AWS().ICE("r6a.large", "all", "all", time.Hour)
	t.Cleanup(shared.AWS().ClearICE)
	node := w.claimsOf(w.name)[0].Object.Status.NodeName
	pool := &karpv1.NodePool{}
	if err := w.client.Get(t.Context(), keyOf(w.name), pool); err != nil {
		t.Fatal(err)
	}
	before := pool.DeepCopy()
	onlyTypes(pool, "r6a.2xlarge", "r6a.large")
	if err := w.client.Patch(t.Context(), pool, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the move to be called off", func() bool {
		return slices.ContainsFunc(w.toldOf("DisruptionBlocked"), func(m string) bool { return strings.Contains(m, "called off") })
	})
	w.await(t, "the cordon to be taken back and the claim that failed to be gone", func() bool {
		n := w.node(node).Object
		return n.Name == node && !observe.HasTaint(n, karpv1.DisruptedTaintKey) && len(w.claimsOf(w.name)) == 1
	})
	for _, p := range w.pods() {
		if p.Object.Labels["app"] == "web" && (p.Terminating.Seen() || p.Deleted.Seen()) {
			t.Errorf("pod %s was evicted though its new node could not be had", p.Object.Name)
		}
	}
}

// The launcher dies in the middle of a move: nothing is lost, and the fleet shrinks all the same.
func TestConsolidationSurvivesTheLauncher(t *testing.T) {
	w := newWorld(t, "consolidation-crash")
	w.budget()
	w.halfEmpty(3, nil)
	w.await(t, "a node to be cordoned", func() bool {
		return slices.ContainsFunc(w.recorder.Nodes(), func(n observe.Node) bool {
			return n.Object.Labels[karpv1.NodePoolLabelKey] == w.name && n.Cordoned.Seen()
		})
	})
	w.kill("launcher")
	lowest := 3
	w.await(t, "the first node to go", func() bool {
		lowest = min(lowest, w.running())
		return len(w.claimsOf(w.name)) < 3
	})
	w.await(t, "the fleet to shrink to one node that takes pods", func() bool {
		lowest = min(lowest, w.running())
		claims := w.claimsOf(w.name)
		return len(claims) == 1 && w.running() == 3 && !observe.HasTaint(w.node(claims[0].Object.Status.NodeName).Object, karpv1.DisruptedTaintKey)
	})
	if lowest < 2 {
		t.Errorf("%d pods of web ran at one time, the PodDisruptionBudget lets one be away", lowest)
	}
}
