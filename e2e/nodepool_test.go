package e2e_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// A NodePool is deleted while another one can take its pods: its NodeClaims are deleted by their owner reference, nodes of the other
// NodePool are launched for their pods, and only then the pods are evicted. By default the NodePool is gone at once; a deletion in
// the foreground keeps it until its NodeClaims are gone.
func TestDeletedNodePoolsPodsMove(t *testing.T) {
	t.Parallel()
	for name, how := range map[string][]client.DeleteOption{
		"retired":            nil,
		"retired-foreground": {client.PropagationPolicy(metav1.DeletePropagationForeground)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name)
			w.pool(name, smallSpot)
			w.deployment("web", 2, w.podSpec("1500m", "1Gi", nil))
			w.awaitRunning(2)
			victims := w.claimsOf(name)
			// A pod that runs on the other NodePool shows that the scheduler has it.
			w.pool(name+"-other", smallSpot)
			w.deployment("first", 1, w.podSpec("1500m", "1Gi", func(s *corev1.PodSpec) {
				s.NodeSelector[karpv1.NodePoolLabelKey] = name + "-other"
			}))
			w.awaitRunning(3)
			if len(victims) != 2 {
				t.Fatalf("%d NodeClaims of the NodePool, want 2", len(victims))
			}
			pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := persist(t.Context(), func() error { return w.client.Delete(t.Context(), pool, how...) }); err != nil {
				t.Fatal(err)
			}
			outlived := false
			w.await(t, "the NodePool's nodes to be gone and the pods to run elsewhere", func() bool {
				err, left := w.client.Get(t.Context(), keyOf(name), pool), &karpv1.NodeClaimList{}
				remain := slices.ContainsFunc(victims, func(v observe.Claim) bool { return !claimGone(w.cluster, v) })
				outlived = outlived || apierrors.IsNotFound(err) &&
					w.client.List(t.Context(), left, client.MatchingLabels{karpv1.NodePoolLabelKey: name}) == nil && len(left.Items) > 0
				return !remain && w.running() == 3
			})
			if background := how == nil; outlived != background {
				t.Errorf("a NodeClaim outlived its NodePool: %t, want %t", outlived, background)
			}
			w.checkMoved(victims, name+"-other", 1)
		})
	}
}

// checkMoved checks that the nodes' pods had room on nodes of another NodePool before they were evicted: at the eviction of the n-th
// of them n nodes were launched there, besides those for as many others.
func (w *world) checkMoved(victims []observe.Claim, pool string, others int) {
	t := w.t
	evicted := func(v observe.Claim) observe.Pod { old, _ := w.podsOn(v.Object.Status.NodeName, nil); return old }
	for _, v := range victims {
		old := evicted(v)
		launched, before := -others, 0
		for _, c := range w.everClaimed(pool) {
			if c.Launched.Before(old.Terminating) {
				launched++
			}
		}
		for _, o := range victims {
			if !old.Terminating.Before(evicted(o).Terminating) {
				before++
			}
		}
		switch outcome, line := w.evictedAfter(v); outcome {
		case "ready", "launched", "room":
			if launched < before {
				t.Errorf("node %s: %d nodes of %s were launched when the pod was evicted as number %d: %s", v.Object.Status.NodeName, launched, pool, before, line)
			}
		case "unanswered", "launching": // The machine was too busy: the launcher has to say so.
			t.Logf("node %s: the launcher did not wait any longer: %s", v.Object.Status.NodeName, line)
		default:
			t.Errorf("node %s: its pod was evicted after %q: %s", v.Object.Status.NodeName, outcome, line)
		}
		if old.Failed.Seen() {
			t.Errorf("pod %s died with its node instead of being evicted", old.Object.Name)
		}
	}
}
