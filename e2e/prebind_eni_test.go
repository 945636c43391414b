package e2e_test

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const podENI = "vpc.amazonaws.com/pod-eni"

// R2: the controller of security groups for pods looks at pods that are bound to nodes it manages; it manages a node once it is there,
// and says so by the resource pod-eni. A pod that was bound before is overlooked, for half an hour. The test is that controller.
func TestR2SecurityGroupsForPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "r2")
	w.pool("r2", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	eni := func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Limits = corev1.ResourceList{podENI: resource.MustParse("1")}
	}
	w.deployment("web", 1, w.podSpec("100m", "64Mi", eni))
	careless := w.carelessPod(w.podSpec("100m", "64Mi", eni))
	name := w.bindAtLaunch(careless, "r2")
	w.await(t, "a node without its startup taint", func() bool { return w.node(name).Untainted.Seen() })
	node := &corev1.Node{}
	if err := w.client.Get(t.Context(), keyOf(name), node); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"status":{"capacity":{"` + podENI + `":"9"},"allocatable":{"` + podENI + `":"9"}}}`)
	if err := w.client.Status().Patch(t.Context(), node, client.RawPatch("application/strategic-merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
	managed, err := strconv.ParseUint(node.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w.await(t, "slipway's pod to be bound", func() bool { return len(w.others()) == 1 && w.others()[0].Bound.Seen() })
	if p := w.history(careless.UID); p.Bound.Revision > managed {
		t.Error("the careless pod was bound to a node that was managed: nothing is shown")
	}
	if p := w.others()[0]; p.Bound.Revision < managed || p.Failed.Seen() {
		t.Errorf("pod %s was bound before its node was managed", p.Object.Name)
	}
	w.awaitRunning(2)
}
