package e2e_test

import (
	"slices"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/observe"
)

// A user creates a NodeClaim without a NodePool. It is launched with the finalizer, and deleted: its pods are evicted, its instance
// ends, and only then it is gone. A deletion in the foreground, as Karpenter's own suite does it, has the NodeClaim wait for its Node
// as well; so it has where somebody removes the finalizer meanwhile.
func TestStandaloneNodeClaim(t *testing.T) {
	t.Parallel()
	foreground := client.PropagationPolicy(metav1.DeletePropagationForeground)
	for name, c := range map[string]struct {
		how   []client.DeleteOption
		strip bool
	}{
		"standalone":            {},
		"standalone-foreground": {how: []client.DeleteOption{foreground}},
		"standalone-stripped":   {how: []client.DeleteOption{foreground}, strip: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name)
			claim := w.standalone(name)
			w.deployment("web", 2, w.podSpec("100m", "64Mi", nil))
			w.awaitRunning(2)
			if err := persist(t.Context(), func() error { return w.client.Delete(t.Context(), claim.Object.DeepCopy(), c.how...) }); err != nil {
				t.Fatal(err)
			}
			if c.strip {
				w.strip(claim.Object.Name)
			}
			w.await(t, "the NodeClaim and its Node to be gone", func() bool {
				return claimGone(w.cluster, claim) && !w.node(claim.Object.Status.NodeName).Created.Seen()
			})
			w.leftWell(name, 2)
			if gone := w.claimNamed(name); c.strip && !gone.Unguarded.Seen() {
				t.Error("the history does not show that the finalizer was removed: this test shows nothing")
			}
		})
	}
}

// standalone creates a NodeClaim as a user does, and waits until its node is one of the cluster's.
func (w *world) standalone(name string) observe.Claim {
	w.t.Helper()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{worldKey: w.name}}}
	claim.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	claim.Spec.Taints = []corev1.Taint{{Key: worldKey, Value: w.name, Effect: corev1.TaintEffectNoSchedule}}
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
		{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpIn, Values: []string{"m7g"}},
		{Key: awsv1.LabelInstanceSize, Operator: corev1.NodeSelectorOpIn, Values: []string{"large"}},
	}
	w.create(claim)
	w.t.Cleanup(func() { w.removeStandalone(claim) })
	w.await(w.t, "NodeClaim "+name+" to be initialized", func() bool { return w.claimNamed(name).Initialized.Seen() })
	return w.claimNamed(name)
}

func (w *world) removeStandalone(claim *karpv1.NodeClaim) {
	ctx, cancel := cleanupContext()
	defer cancel()
	w.clear(ctx)
	if err := persist(ctx, func() error { return client.IgnoreNotFound(w.client.Delete(ctx, claim)) }); err != nil {
		w.t.Error(err)
	}
}

// claimNamed returns the history of a NodeClaim by name.
func (w *world) claimNamed(name string) observe.Claim {
	for _, c := range w.recorder.Claims() {
		if c.Object.Name == name {
			return c
		}
	}
	return observe.Claim{Object: &karpv1.NodeClaim{}}
}

// strip removes Karpenter's finalizer from a NodeClaim that is being deleted, as somebody does who finds it in the way.
func (w *world) strip(name string) {
	w.t.Helper()
	if err := persist(w.t.Context(), func() error {
		claim := &karpv1.NodeClaim{}
		if err := w.client.Get(w.t.Context(), keyOf(name), claim); err != nil {
			return err
		}
		before := claim.DeepCopy()
		controllerutil.RemoveFinalizer(claim, karpv1.TerminationFinalizer)
		return w.client.Patch(w.t.Context(), claim, client.MergeFrom(before))
	}); err != nil {
		w.t.Fatal(err)
	}
}

// leftWell checks that a NodeClaim which is gone had its pods evicted, and went after its instance.
func (w *world) leftWell(name string, pods int) {
	w.t.Helper()
	evidence := invariants.Evidence{Claims: []observe.Claim{w.claimNamed(name)}}
	evidence.Instances = shared.AWS().Instances()
	for _, broken := range invariants.Always(evidence) {
		w.t.Error(broken)
	}
	if !slices.ContainsFunc(evidence.Claims, func(c observe.Claim) bool { return instanceID(c) != "" }) {
		w.t.Error("the NodeClaim never had an instance: this test shows nothing")
	}
	moved := 0
	for _, p := range w.pods() {
		if p.Failed.Seen() {
			w.t.Errorf("pod %s failed instead of being evicted: %s %s", p.Object.Name, p.Object.Status.Reason, p.Object.Status.Message)
		}
		if p.Running.Seen() && p.Terminating.Seen() {
			moved++
		}
	}
	if evicted := len(w.events("Evicted")); moved != pods || evicted < pods {
		w.t.Errorf("%d pods left and %d Events speak of evictions, want %d", moved, evicted, pods)
	}
}
