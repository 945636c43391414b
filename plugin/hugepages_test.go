package plugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// hugePages has the pod ask for that much memory in huge pages of 2 MiB.
func hugePages(amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["hugepages-2Mi"] = resource.MustParse(amount)
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse(amount)}
	}
}

// No instance type has huge pages by EC2's word. A pod that asks for some runs on a node that exists and has them; where none has enough, the
// pod says so, and nothing is launched for it, however often other pods are.
func TestHugePages(t *testing.T) {
	t.Parallel()
	node := newNode("huge", "1900m", nil)
	node.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("1Gi")
	h := start(t, harnessOptions{objects: []runtime.Object{node}})
	h.pod("fits", hugePages("1Gi"))
	h.eventually("the pod to use the node that exists", func() bool { return h.bound() == 1 })
	h.pod("waits", hugePages("512Mi"))
	h.eventually("the sentence", func() bool {
		return strings.Contains(h.message("waits"), "asks for 512Mi hugepages-2Mi; no type of the pool has any: EC2 offers instances without huge pages")
	})
	for _, name := range []string{"other-1", "other-2"} {
		h.pod(name, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1800m")
		})
		h.eventually("a launch for "+name, func() bool { return h.launcher.podNames()[name] == 1 })
	}
	if n := h.launcher.podNames()["waits"]; n != 0 {
		t.Errorf("launched %d times for a pod that no new node can run", n)
	}
}

// Where an instance type is declared with huge pages, the pod gets a node of it.
func TestDeclaredHugePages(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}, prepare: func(l *testLauncher) {
		for _, it := range l.types[0].GetTypes() {
			if it.GetName() == "m7g.xlarge" {
				it.Capacity["hugepages-2Mi"], it.Allocatable["hugepages-2Mi"] = "2Gi", "2Gi"
			}
		}
	}})
	h.pod("huge", hugePages("1Gi"))
	var claims []*api.Claim
	h.eventually("a launch", func() bool { claims = h.launcher.claims(); return len(claims) == 1 })
	if got := claims[0].GetInstanceTypes(); len(got) != 1 || got[0] != "m7g.xlarge" {
		t.Errorf("launched as one of %v, want the one with huge pages", got)
	}
}
