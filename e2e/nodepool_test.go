package e2e_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
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
				err := w.client.Get(t.Context(), keyOf(name), pool)
				remain := slices.ContainsFunc(victims, func(v observe.Claim) bool { return !claimGone(w.cluster, v) })
				outlived = outlived || apierrors.IsNotFound(err) && len(w.claimsOf(name)) > 0
				return !remain && w.running() == 3
			})
			if background := how == nil; outlived != background {
				t.Errorf("a NodeClaim outlived its NodePool: %t, want %t", outlived, background)
			}
			for _, v := range victims {
				w.checkMoved(v, name+"-other")
			}
		})
	}
}

// checkMoved checks that a node of another NodePool was launched for the pod of a node before that pod was evicted.
func (w *world) checkMoved(victim observe.Claim, pool string) {
	t, name := w.t, victim.Object.Status.NodeName
	old, _ := w.podsOn(name, nil)
	made := slices.DeleteFunc(w.everClaimed(pool), func(c observe.Claim) bool {
		return !slices.Contains(strings.Split(c.Object.Annotations[catalog.ReplacesAnnotation], ","), name)
	})
	switch outcome, line := w.evictedAfter(victim); outcome {
	case "launched", "room":
		if len(made) == 0 || !slices.ContainsFunc(made, func(c observe.Claim) bool { return c.Launched.Before(old.Terminating) }) {
			t.Errorf("node %s: %d NodeClaims of %s were made for its pod, none was launched before the eviction", name, len(made), pool)
		}
	case "unanswered", "launching": // The machine was too busy: the launcher has to say so.
		t.Logf("node %s: the launcher did not wait any longer: %s", name, line)
	default:
		t.Errorf("node %s: its pod was evicted after %q: %s", name, outcome, line)
	}
	if old.Failed.Seen() {
		t.Errorf("pod %s died with its node instead of being evicted", old.Object.Name)
	}
}
