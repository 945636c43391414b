package e2e_test

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// notOnSpot counts the running pods of the test whose nodes are not spot ones.
func (w *world) notOnSpot() int {
	n := 0
	for _, p := range w.pods() {
		if p.Deleted.Seen() || p.Terminating.Seen() || p.Object.Status.Phase != corev1.PodRunning {
			continue
		}
		if w.node(p.Object.Spec.NodeName).Object.Labels[karpv1.CapacityTypeLabelKey] == "on-demand" {
			n++
		}
	}
	return n
}

// onDemandClaim returns an on-demand NodeClaim of the pool that has a node.
func (w *world) onDemandClaim(pool string) observe.Claim {
	w.t.Helper()
	for _, c := range w.claimsOf(pool) {
		if c.Object.Labels[karpv1.CapacityTypeLabelKey] == "on-demand" && c.Object.Status.NodeName != "" {
			return c
		}
	}
	w.t.Fatal("no on-demand node")
	return observe.Claim{}
}

// A workload's own share holds in a NodePool that has none, and for that workload alone.
func TestWorkloadsOwnOnDemandShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "own-share")
	w.pool("own-share", func(p *karpv1.NodePool) { require(p, awsv1.LabelInstanceCPU, "2") })
	deploy := func(name, share string) {
		labels, n := map[string]string{"app": name}, int32(3)
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
		d.Spec.Replicas, d.Spec.Selector = &n, &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: w.podSpec("1500m", "1Gi", nil)}
		if share != "" {
			d.Spec.Template.Annotations = map[string]string{catalog.OnDemandShareAnnotation: share}
		}
		w.create(d)
	}
	deploy("any", "")
	deploy("steady", "60%")
	w.awaitRunning(6)
	onDemand := map[string]int{}
	for _, p := range w.pods() {
		if w.node(p.Object.Spec.NodeName).Object.Labels[karpv1.CapacityTypeLabelKey] == "on-demand" {
			onDemand[p.Object.Labels["app"]]++
		}
	}
	if onDemand["steady"] != 2 || onDemand["any"] != 0 {
		t.Errorf("%d of 3 pods with a share of 60%% and %d of 3 without one are not on spot, want 2 and 0", onDemand["steady"], onDemand["any"])
	}
}

// Half of a workload's pods are kept off spot, rounded up, in a cluster with real controllers: when it is created, when it is scaled up, and
// when an on-demand node terminates, whose pod moves to another on-demand node.
func TestMinimumOnDemandShare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "share")
	w.pool("share", func(p *karpv1.NodePool) {
		p.Annotations = map[string]string{catalog.OnDemandShareAnnotation: "50%"}
		require(p, awsv1.LabelInstanceCPU, "2")
	})
	d := w.deployment("web", 3, w.podSpec("1500m", "1Gi", nil))
	w.awaitRunning(3)
	if n := w.notOnSpot(); n != 2 {
		t.Fatalf("%d of 3 pods are not on spot, want 2", n)
	}
	w.scale(d, 6)
	w.awaitRunning(6)
	if n := w.notOnSpot(); n != 3 {
		t.Fatalf("%d of 6 pods are not on spot, want 3", n)
	}
	gone := w.onDemandClaim("share")
	if err := w.client.Delete(t.Context(), gone.Object.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the node to be gone and all pods to run", func() bool { return claimGone(w.cluster, gone) && w.running() == 6 })
	if n := w.notOnSpot(); n != 3 {
		t.Errorf("%d of 6 pods are not on spot after one of their nodes was deleted, want 3", n)
	}
}
