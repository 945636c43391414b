package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
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
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// shrinking is a NodePool of small nodes that gives up what is not needed at once; change adapts it.
func (w *world) shrinking(change func(*karpv1.NodePool)) {
	w.t.Helper()
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		p.Annotations = map[string]string{catalog.NodeAgeAnnotation: "0s", catalog.PodAgeAnnotation: "0s"}
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
		if change != nil {
			change(p)
		}
	})
}

// halfEmpty fills n nodes of the test's NodePool and leaves each with one pod of Deployment web: the pods that filled them have gone.
func (w *world) halfEmpty(n int) {
	w.t.Helper()
	filler := w.deployment("filler", int32(n), w.podSpec("1300m", "512Mi", nil))
	// Pods of web that are seen first would share a node.
	w.awaitRunning(n)
	w.deployment("web", int32(n), w.podSpec("300m", "512Mi", func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}))
	w.awaitRunning(2 * n)
	w.scale(filler, 0)
}

// web lists the histories of Deployment web's pods.
func (w *world) web() []observe.Pod {
	return slices.DeleteFunc(w.pods(), func(p observe.Pod) bool { return p.Object.Labels["app"] != "web" })
}

// keptAvailable says that of Deployment web's pods, want in number, no more than one was away at a time, counted write by write.
func (w *world) keptAvailable(want int) {
	w.t.Helper()
	if fewest := observe.FewestReady(w.web(), want); fewest < want-1 {
		w.t.Errorf("%d pods of web were Ready at the worst moment, the PodDisruptionBudget lets 1 of %d be away", fewest, want)
	}
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

// fromV1beta1 is a NodePool as it was written for Karpenter's v1beta1, after slipway convert.
func (w *world) fromV1beta1() {
	w.t.Helper()
	old := fmt.Sprintf(`
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: %[1]s
  annotations: {%[3]s: 0s, %[4]s: 0s}
spec:
  template:
    metadata: {labels: {%[2]s: %[1]s}}
    spec:
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: default}
      taints: [{key: %[2]s, value: %[1]s, effect: NoSchedule}]
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m6i.large]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
  disruption: {consolidationPolicy: WhenUnderutilized, budgets: [{nodes: 100%%}]}
`, w.name, worldKey, catalog.NodeAgeAnnotation, catalog.PodAgeAnnotation)
	file := filepath.Join(w.t.TempDir(), "v1beta1.yaml")
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		w.t.Fatal(err)
	}
	pool := &karpv1.NodePool{}
	if err := yaml.UnmarshalStrict([]byte(w.slipway("convert", "-f", file)), pool); err != nil {
		w.t.Fatal(err)
	}
	if got := pool.Spec.Disruption.ConsolidationPolicy; got != karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized {
		w.t.Errorf("WhenUnderutilized became %s", got)
	}
	// Other tests release AMIs.
	pool.Spec.Disruption.Budgets = append(pool.Spec.Disruption.Budgets, karpv1.Budget{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}})
	w.create(pool)
	w.t.Cleanup(func() { w.removePool(pool) })
}

// A fleet of a NodePool that was written for v1beta1 with WhenUnderutilized, half empty, shrinks to the node that is enough, while
// its Deployment keeps the availability that its budget asks for.
func TestConsolidationShrinksAFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "consolidation")
	w.fromV1beta1()
	w.budget()
	w.halfEmpty(4)
	before := len(w.claimsOf(w.name))
	w.await(t, "the fleet to shrink to one node", func() bool { return len(w.claimsOf(w.name)) == 1 && w.running() == 4 })
	if before < 2 {
		t.Fatalf("the fleet had %d nodes: nothing to shrink", before)
	}
	w.keptAvailable(4)
	if n := len(w.everClaimed(w.name)); n != before {
		t.Errorf("%d nodes were bought, %d were enough: all pods had room on one of them", n, before)
	}
	for _, want := range []string{"DisruptionLaunching", "DisruptionTerminating"} {
		if len(w.toldOf(want)) == 0 {
			t.Errorf("no Event %s about any of the NodeClaims", want)
		}
	}
}

// After a scale-in with the defaults, nodes and pods that are minutes old are no reason to wait: the fleet shrinks once consolidateAfter is over, and no
// pod moves twice for it.
func TestScaleInShrinksWithTheDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "scalein")
	const after = 5 * time.Second
	w.shrinking(func(p *karpv1.NodePool) {
		p.Annotations = nil
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration(after.String())
	})
	w.halfEmpty(4)
	before := len(w.claimsOf(w.name))
	w.await(t, "the fleet to shrink to one node", func() bool { return len(w.claimsOf(w.name)) == 1 && w.running() == 4 })
	left, first := time.Time{}, time.Now()
	evictions := 0
	for _, p := range w.pods() {
		at := p.Terminating.At
		switch {
		case at.IsZero():
		case p.Object.Labels["app"] != "web":
			if at.After(left) {
				left = at
			}
		default:
			evictions++
			if at.Before(first) {
				first = at
			}
		}
	}
	if evictions == 0 || evictions > 3 {
		t.Errorf("%d evictions from %d nodes with 4 pods, want one for each pod that moves", evictions, before)
	}
	if wait := first.Sub(left); wait < after {
		t.Errorf("the first pod was evicted %s after the last one had to go, consolidateAfter is %s", wait, after)
	}
	for _, c := range w.everClaimed(w.name) {
		if at := c.Terminating.At; !at.IsZero() && at.Sub(c.Created.At) > 10*time.Minute {
			t.Errorf("%s was given up at an age of %s", c.Object.Name, at.Sub(c.Created.At))
		}
	}
}

// change changes the test's NodePool.
func (w *world) change(change func(*karpv1.NodePool)) {
	w.t.Helper()
	pool := &karpv1.NodePool{}
	if err := w.client.Get(w.t.Context(), keyOf(w.name), pool); err != nil {
		w.t.Fatal(err)
	}
	before := pool.DeepCopy()
	change(pool)
	if err := persist(w.t.Context(), func() error { return w.client.Patch(w.t.Context(), pool, client.MergeFrom(before)) }); err != nil {
		w.t.Fatal(err)
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
func TestConsolidationIsCalledOffWhenALaunchFailsAlone(t *testing.T) {
	w := newWorld(t, "called-off")
	w.shrinking(func(p *karpv1.NodePool) { onlyTypes(p, "r6a.2xlarge") })
	w.halfEmpty(1)
	shared.AWS().ICE("r6a.large", "all", "all", time.Hour)
	t.Cleanup(shared.AWS().ClearICE)
	node := w.claimsOf(w.name)[0].Object.Status.NodeName
	w.change(func(p *karpv1.NodePool) { onlyTypes(p, "r6a.2xlarge", "r6a.large") })
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
func TestConsolidationSurvivesTheLauncherAlone(t *testing.T) {
	w := newWorld(t, "consolidation-crash")
	w.budget()
	w.shrinking(nil)
	w.halfEmpty(3)
	w.await(t, "a node to be cordoned", func() bool {
		return slices.ContainsFunc(w.recorder.Nodes(), func(n observe.Node) bool {
			return n.Object.Labels[karpv1.NodePoolLabelKey] == w.name && n.Cordoned.Seen()
		})
	})
	w.kill("launcher")
	w.await(t, "the first node to go", func() bool { return len(w.claimsOf(w.name)) < 3 })
	w.await(t, "the fleet to shrink to one node that takes pods", func() bool {
		claims := w.claimsOf(w.name)
		return len(claims) == 1 && w.running() == 3 && !observe.HasTaint(w.node(claims[0].Object.Status.NodeName).Object, karpv1.DisruptedTaintKey)
	})
	w.keptAvailable(3)
}

// A NodePool's template says by do-not-disrupt with a duration how long its nodes are left alone: one that is empty goes when that is
// over, and not before.
func TestTemplateProtectsItsNodesForAWhile(t *testing.T) {
	t.Parallel()
	const protected = 10 * time.Second
	w := newWorld(t, "template-protects")
	w.shrinking(func(p *karpv1.NodePool) {
		p.Spec.Template.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: protected.String()}
	})
	web := w.deployment("web", 1, w.podSpec("300m", "512Mi", nil))
	w.awaitRunning(1)
	claim := w.claimsOf(w.name)[0]
	if got := w.node(claim.Object.Status.NodeName).Object.Annotations[karpv1.DoNotDisruptAnnotationKey]; got != protected.String() {
		t.Errorf("the node says %q of itself, want %q", got, protected)
	}
	w.scale(web, 0)
	w.await(t, "the empty node to be gone", func() bool { return claimGone(w.cluster, claim) })
	for _, c := range w.everClaimed(w.name) {
		// The API server's times are whole seconds.
		if end := c.Object.DeletionTimestamp; end == nil || end.Sub(c.Object.CreationTimestamp.Time) < protected-time.Second {
			t.Errorf("NodeClaim %s was created at %s and was to go at %s, its template protects it for %s", c.Object.Name, c.Object.CreationTimestamp, end, protected)
		}
	}
}
