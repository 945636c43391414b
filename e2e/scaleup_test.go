package e2e_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// Ordinary pods are bound by the launcher once the kubelet is ready, and before anything else may use the node; pods that
// need no network are there when the kubelet starts.
func TestPreBindingAlone(t *testing.T) {
	w := newWorld(t, "pre-binding")
	boot := w.hold("pre-binding")
	w.pool("pre-binding", nil)
	w.deployment("web", 24, w.podSpec("500m", "1Gi", nil))
	w.deployment("host", 2, w.podSpec("100m", "64Mi", func(s *corev1.PodSpec) { s.HostNetwork = true }))
	w.await(t, "the pods that need no network to be bound", func() bool {
		return len(slices.DeleteFunc(w.pods(), func(p observe.Pod) bool { return !p.Bound.Seen() || !p.Object.Spec.HostNetwork })) == 2
	})
	w.awaitPromised("pre-binding", 26)
	boot()
	w.awaitRunning(26)
	bound := map[string]string{}
	w.await(t, "the Events", func() bool {
		for _, e := range w.events("PreBound") {
			bound[string(e.InvolvedObject.UID)] = e.Message
		}
		return len(bound) >= 26 && len(w.events("Nominated")) > 0
	})
	w.await(t, "the startup taints to go", func() bool {
		return !slices.ContainsFunc(w.pods(), func(p observe.Pod) bool { return !w.node(p.Object.Spec.NodeName).Untainted.Seen() })
	})
	for _, p := range w.pods() {
		node := w.node(p.Object.Spec.NodeName)
		if message := bound[string(p.Object.UID)]; !strings.Contains(message, node.Object.Name) {
			t.Errorf("pod %s has no Event PreBound that names its node %s: %q", p.Object.Name, node.Object.Name, message)
		}
		checkMoment(t, p, node)
	}
}

func checkMoment(t *testing.T, p observe.Pod, node observe.Node) {
	t.Helper()
	switch {
	case p.Object.Spec.HostNetwork && !p.Bound.Before(node.Joined):
		t.Errorf("pod %s needs no network and was bound only after the kubelet of %s had joined", p.Object.Name, node.Object.Name)
	case p.Object.Spec.HostNetwork:
	case !node.Ready.Before(p.Bound):
		t.Errorf("pod %s was bound before node %s was ready", p.Object.Name, node.Object.Name)
	case !p.Bound.Before(node.Untainted):
		t.Errorf("pod %s was bound after the startup taint of %s had gone", p.Object.Name, node.Object.Name)
	}
}

// Pods that come while nodes boot use what is on its way: never a second node for the same need.
func TestWaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "waves")
	// One size only: eight pods of one core fit a node of eight cores nearly, seven with what the kubelet keeps.
	w.pool("waves", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.2xlarge") })
	d := w.deployment("wave", 3, w.podSpec("1", "1Gi", nil))
	w.await(t, "the first NodeClaim", func() bool { return len(w.claimsOf("waves")) == 1 })
	for _, n := range []int{4, 5, 7} {
		w.scale(d, n)
		w.await(t, "the next wave to be there", func() bool { return len(w.pods()) == n })
	}
	w.awaitRunning(7)
	if got := len(w.everClaimed("waves")); got != 1 {
		t.Errorf("%d NodeClaims for 7 pods that fit one node", got)
	}
}

// onlyTypes narrows a NodePool to instance types.
func onlyTypes(p *karpv1.NodePool, types ...string) {
	require(p, corev1.LabelInstanceTypeStable, types...)
}

// require adds a requirement to a NodePool, in place of one with the same key.
func require(p *karpv1.NodePool, key string, values ...string) {
	r := karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	kept := p.Spec.Template.Spec.Requirements[:0]
	for _, old := range p.Spec.Template.Spec.Requirements {
		if old.Key != key {
			kept = append(kept, old)
		}
	}
	p.Spec.Template.Spec.Requirements = append(kept, r)
}
