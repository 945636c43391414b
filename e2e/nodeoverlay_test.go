package e2e_test

import (
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/nodeoverlay"
)

const fuse = "smarter-devices/fuse"

// overlay creates a NodeOverlay for the test's NodePool and returns its condition once there is one.
func (w *world) overlay(name string, weight int32, change func(*v1alpha1.NodeOverlaySpec)) (status, reason, message string) {
	w.t.Helper()
	o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Spec.Weight = &weight
	o.Spec.Requirements = []v1alpha1.NodeSelectorRequirement{{Key: karpv1.NodePoolLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{w.name}}}
	change(&o.Spec)
	w.create(o)
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.IgnoreNotFound(w.client.Delete(ctx, o)); err != nil {
			w.t.Error(err)
		}
	})
	w.await(w.t, "a condition of NodeOverlay "+name, func() bool {
		if err := w.client.Get(w.t.Context(), keyOf(name), o); err != nil {
			return false
		}
		c := o.StatusConditions().Get(v1alpha1.ConditionTypeValidationSucceeded)
		status, reason, message = string(c.GetStatus()), c.Reason, c.Message
		return c.ObservedGeneration == o.Generation && !c.IsUnknown()
	})
	return status, reason, message
}

// onType restricts a NodeOverlay to an instance type.
func onType(s *v1alpha1.NodeOverlaySpec, name string) {
	s.Requirements = append(s.Requirements, v1alpha1.NodeSelectorRequirement{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{name}})
}

// A price of the user's own decides what is bought, and is what the node's cost and the metric say. A NodeOverlay that is in conflict says so and
// changes nothing. A resource that a device plugin is to add brings a node, which is initialized once it reports the resource.
func TestNodeOverlay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "node-overlay")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large", "c6i.large")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	})
	price := "0.001"
	if status, reason, message := w.overlay("node-overlay-price", 10, func(s *v1alpha1.NodeOverlaySpec) {
		onType(s, "m6i.large")
		s.Price = &price
	}); status != "True" {
		t.Fatalf("the NodeOverlay's condition is %s: %s: %s", status, reason, message)
	}
	endless := strings.Repeat("9", 300)
	if status, reason, message := w.overlay("node-overlay-endless", 10, func(s *v1alpha1.NodeOverlaySpec) {
		s.Price = &endless
	}); status != "False" || reason != "Conflict" || !strings.Contains(message, "node-overlay-price") {
		t.Errorf("the condition of the NodeOverlay in conflict is %s: %s: %s", status, reason, message)
	}
	w.await(t, "an Event on the NodeOverlay in conflict", func() bool { return len(w.eventsAbout("node-overlay-endless", nodeoverlay.ReasonNotApplied)) > 0 })
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(1)
	w.await(t, "the node to be initialized", func() bool { return w.claimsOf(w.name)[0].Initialized.Seen() })
	claim := w.claimsOf(w.name)[0].Object
	cost, _ := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
	if claim.Labels[corev1.LabelInstanceTypeStable] != "m6i.large" || math.Abs(cost.Instance-0.001) > 1e-6 || cost.Volumes <= 0 ||
		claim.Annotations[v1alpha1.PriceOverlayAppliedAnnotationKey] != "true" || claim.Annotations[v1alpha1.CapacityOverlayAppliedAnnotationKey] != "" {
		t.Errorf("the node is %s and costs %+v, annotations %v", claim.Labels[corev1.LabelInstanceTypeStable], cost, claim.Annotations)
	}
	if got := w.costMetric(); math.Abs(got-cost.Total()) > 1e-5 {
		t.Errorf("the NodePool costs %v, want %v", got, cost.Total())
	}
	if c := claim.StatusConditions().Get(karpv1.ConditionTypeConsistentStateFound); !c.IsTrue() {
		t.Errorf("ConsistentStateFound is %+v", c)
	}
	w.withFuse()
}

// costMetric returns what the launcher's metric says that the test's NodePool costs.
func (w *world) costMetric() float64 {
	w.t.Helper()
	for _, m := range w.launcherMetrics()["karpenter_nodepools_cost_total"].GetMetric() {
		if m.GetLabel()[0].GetValue() == w.name {
			return m.GetGauge().GetValue()
		}
	}
	return 0
}

// withFuse runs a pod that needs a device of which no instance type of AWS's has any.
func (w *world) withFuse() {
	w.t.Helper()
	if status, reason, message := w.overlay("node-overlay-fuse", 20, func(s *v1alpha1.NodeOverlaySpec) {
		s.Capacity = corev1.ResourceList{fuse: resource.MustParse("5")}
	}); status != "True" {
		w.t.Fatalf("the condition of the NodeOverlay with a capacity is %s: %s: %s", status, reason, message)
	}
	w.deployment("device", 1, w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Limits = corev1.ResourceList{fuse: resource.MustParse("1")}
	}))
	claim := &karpv1.NodeClaim{}
	w.await(w.t, "a node that waits for the device plugin", func() bool {
		for _, c := range w.claimsOf(w.name) {
			if c.Object.Annotations[v1alpha1.CapacityOverlayAppliedAnnotationKey] == "true" {
				claim = c.Object
			}
		}
		return claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).Reason == "ResourceNotRegistered"
	})
	if q := claim.Status.Capacity[fuse]; q.Value() != 5 {
		w.t.Errorf("the NodeClaim's capacity has %s of %s, want 5", q.String(), fuse)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: claim.Status.NodeName}}
	patch := []byte(`{"status":{"capacity":{"` + fuse + `":"5"},"allocatable":{"` + fuse + `":"5"}}}`)
	if err := w.client.Status().Patch(w.t.Context(), node, client.RawPatch("application/strategic-merge-patch+json", patch)); err != nil {
		w.t.Fatal(err)
	}
	w.awaitRunning(2)
	w.await(w.t, "the node to be initialized", func() bool {
		return w.client.Get(w.t.Context(), keyOf(claim.Name), claim) == nil && conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized)
	})
}

// eventsAbout returns the messages of the Events with that reason on a cluster-scoped object.
func (w *world) eventsAbout(name, reason string) []string {
	w.t.Helper()
	var events corev1.EventList
	if err := w.client.List(w.t.Context(), &events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range events.Items {
		if e.InvolvedObject.Name == name && e.Reason == reason {
			out = append(out, e.Message)
		}
	}
	return out
}
