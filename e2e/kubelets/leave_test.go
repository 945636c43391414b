package kubelets_test

import (
	"strings"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// EC2 takes a spot instance away: room for its pods is bought before the first of them is told to go, and their containers stop
// in their own time.
func TestSpotInterruption(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "spot")
	w.pool("spot", func(p *karpv1.NodePool) { require(p, karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeSpot) })
	w.deployment("web", 2, w.spec("1", stopsIn, nil))
	w.await(t, "the pods to run", func() bool { return w.running("web") == 2 })
	victim := w.claims("spot")[0]
	id := victim.Object.Status.ProviderID
	if err := w.AWS().Interrupt(id[strings.LastIndexByte(id, '/')+1:]); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the interrupted node to be gone and the pods to run elsewhere", func() bool {
		return w.gone(victim) && w.left(victim.Object.Status.NodeName) && w.running("web") == 2
	})
	w.noneFailed("web")
	var next *observe.Claim
	for _, c := range w.recorder.Claims() {
		if c.Object.Labels[karpv1.NodePoolLabelKey] == "spot" && c.Object.UID != victim.Object.UID {
			next = &c
			break
		}
	}
	for _, p := range w.pods("web") {
		if p.Object.Spec.NodeName != victim.Object.Status.NodeName {
			continue
		}
		if next == nil || !next.Created.Before(p.Terminating) {
			t.Errorf("pod %s had to go at %v, before there was a NodeClaim for it", p.Object.Name, p.Terminating.At)
		}
		if took := p.Deleted.At.Sub(p.Terminating.At); took < stopsIn-time.Second {
			t.Errorf("pod %s was gone after %s, its container takes %s to stop", p.Object.Name, took, stopsIn)
		}
	}
}

// Containers that take twenty seconds to stop, one after the other for the sake of a PodDisruptionBudget, have them.
func TestSlowStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "slow")
	w.pool("slow", nil)
	const stops = 20 * time.Second
	w.deployment("web", 2, w.spec("1", stops, nil))
	w.await(t, "the pods to run", func() bool { return w.running("web") == 2 })
	deleteNode(t, w, stops)
}
