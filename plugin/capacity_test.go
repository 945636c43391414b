package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// Launches that fail for want of capacity count against their offerings. Pods of others are launched for at once, on other
// offerings, however many have failed; those that name a sold-out type wait, and say for what.
func TestCapacityFailuresAreTheOfferings(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	var named []string
	for _, capacityType := range []string{"spot", "on-demand"} {
		for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
			name := fmt.Sprintf("named-%s-%s", capacityType, zone)
			named = append(named, name)
			h.pod(name, func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{
					"node.kubernetes.io/instance-type": "m7g.large", "karpenter.sh/capacity-type": capacityType, "topology.kubernetes.io/zone": zone,
				}
			})
		}
	}
	h.eventually("a node for each of them", func() bool { return len(h.launcher.claims()) == len(named) })
	for _, c := range h.launcher.claims() {
		h.launcher.end(c.GetName(), "", api.Outcome_OUTCOME_FAILED)
	}
	h.eventually("the conditions of all of them", func() bool {
		return !slices.ContainsFunc(named, func(name string) bool {
			return !strings.Contains(h.message(name), "EC2 has no capacity") || !strings.Contains(h.message(name), "tried again at")
		})
	})
	if n := h.metric("slipway_offerings_on_probation", ""); n != 6 {
		t.Errorf("%v offerings are on probation, want the 6 of the type", n)
	}
	for i := range 20 {
		pod := newPod(fmt.Sprintf("other-%d", i), "500m", "512Mi")
		pod.Namespace = "other"
		if _, err := h.client.CoreV1().Pods("other").Create(h.ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.eventually("the others to be launched for", func() bool {
		n := 0
		for name := range h.launcher.podNames() {
			if strings.HasPrefix(name, "other-") {
				n++
			}
		}
		return n == 20
	})
	for _, c := range h.launcher.claims()[len(named):] {
		others := slices.ContainsFunc(c.GetPods(), func(p *api.PodRef) bool { return strings.HasPrefix(p.GetName(), "other-") })
		if others && c.GetExpected().GetInstanceType() == "m7g.large" {
			t.Errorf("NodeClaim %s for %d pods is of the type that has no capacity", c.GetName(), len(c.GetPods()))
		}
	}
	if i := slices.IndexFunc(named, func(name string) bool { return strings.Contains(h.message(name), "not ready") }); i >= 0 {
		t.Errorf("%s says of a NodePool that is ready: %s", named[i], h.message(named[i]))
	}
}

// An instance type that EC2 refuses to one class: the launcher does not offer it meanwhile. It counts neither against the NodePool nor against the
// offerings of other NodePools, however often its pods are planned.
func TestRefusedTypesAreNoFaultOfTheNodePool(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	h.pod("denied", func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{
			"node.kubernetes.io/instance-type": "m7g.large", "karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "us-east-1a",
		}
	})
	const times = 6
	waits := ""
	for i := range times {
		h.eventually("a node for the pod", func() bool {
			if text := h.message("denied"); strings.Contains(text, "not ready") {
				waits = text
			}
			return len(h.launcher.requests()) == i+1
		})
		h.launcher.endFor(h.launcher.requests()[i].GetClaims()[0].GetName(), "", api.Outcome_OUTCOME_FAILED, ec2error.ReasonInstanceTypeRefused)
	}
	h.eventually("a node for it once more", func() bool { return len(h.launcher.requests()) == times+1 })
	h.pod("other", nil)
	h.eventually("a node for the pod of another", func() bool { return h.launcher.podNames()["other"] > 0 })
	if waits != "" {
		t.Errorf("the NodePool is not ready: %s", waits)
	}
	if n := h.metric("slipway_offerings_on_probation", ""); n != 0 {
		t.Errorf("%v offerings are on probation", n)
	}
}

// A launch that fails before the launcher has shown its node counts against its offerings like any other, and its pods are planned again at once.
func TestCapacityFailureOfANodeThatWasNeverShown(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}, prepare: func(l *testLauncher) { l.silent = true }})
	h.pod("named", func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{
			"node.kubernetes.io/instance-type": "m7g.large", "karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "us-east-1a",
		}
	})
	h.eventually("a node for the pod", func() bool { return len(h.launcher.requests()) == 1 })
	h.launcher.end(h.launcher.requests()[0].GetClaims()[0].GetName(), "", api.Outcome_OUTCOME_FAILED)
	h.launcher.end("default-of-another", "", api.Outcome_OUTCOME_FAILED)
	h.eventually("the pod's condition", func() bool { return strings.Contains(h.message("named"), "EC2 has no capacity") })
	if n := h.metric("slipway_offerings_on_probation", ""); n != 1 {
		t.Errorf("%v offerings are on probation, want 1", n)
	}
}
