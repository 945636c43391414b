package handover_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/handover"
)

// The files have a command per situation: words about a NodeClaim, its Node and its NodePool. The output is each step until nothing is left to do.
func TestDecide(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			facts := read(strings.Fields(d.Input))
			var out []string
			for range 5 {
				step := handover.Decide(facts)
				if step == handover.Stay {
					break
				}
				out = append(out, string(step))
				apply(facts, step)
			}
			if len(out) == 0 {
				return "stay\n"
			}
			return strings.Join(out, "\n") + "\n"
		})
	})
}

func read(words []string) handover.Facts {
	has := func(word string) bool { return slices.Contains(words, word) }
	now := metav1.NewTime(time.Unix(1, 0))
	claim := &karpv1.NodeClaim{}
	f := handover.Facts{Claim: claim, Alone: has("alone"), Selected: has("selected"), Kept: has("kept")}
	for word, kind := range map[string]string{"launched": karpv1.ConditionTypeLaunched, "initialized": karpv1.ConditionTypeInitialized} {
		if has(word) {
			claim.StatusConditions().SetTrue(kind)
		}
	}
	if has("claim-ours") {
		claim.Finalizers = append(claim.Finalizers, finalizer.Slipway)
	}
	if has("claim-theirs") {
		claim.Finalizers = append(claim.Finalizers, karpv1.TerminationFinalizer)
	}
	if has("claim-deleting") {
		claim.DeletionTimestamp = &now
	}
	if !has("node-ours") && !has("node-theirs") {
		return f
	}
	f.Node = &corev1.Node{}
	if has("node-ours") {
		finalizer.Take(f.Node)
	} else {
		finalizer.Return(f.Node)
	}
	if has("node-deleting") {
		f.Node.DeletionTimestamp = &now
	}
	if has("tainted") {
		f.Node.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint}
	}
	return f
}

func apply(f handover.Facts, step handover.Step) {
	switch step {
	case handover.TakeNode:
		finalizer.Take(f.Node)
	case handover.TakeClaim:
		finalizer.Take(f.Claim)
	case handover.ReturnNode:
		finalizer.Return(f.Node)
	case handover.ReleaseNode:
		finalizer.Release(f.Node)
	case handover.ReturnClaim:
		finalizer.Return(f.Claim)
	case handover.Stay:
	}
}
