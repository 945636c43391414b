package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// layoutOf lists an instance's network interfaces as "kind card/device".
func layoutOf(i ec2types.Instance) string {
	var out []string
	for _, n := range i.NetworkInterfaces {
		out = append(out, fmt.Sprintf("%s %d/%d", *n.InterfaceType, *n.Attachment.NetworkCardIndex, *n.Attachment.DeviceIndex))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Every instance type with EFA offers it, without network interfaces in the class: a node whose pods request EFA is launched with one on each
// network card, any other node with an ordinary interface.
func TestEFAOfTheInstanceType(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "efa")
	only := func(kind string) func(*karpv1.NodePool) {
		return func(p *karpv1.NodePool) {
			onlyTypes(p, kind)
			require(p, awsv1.LabelInstanceCategory, "m", "p")
			require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		}
	}
	w.pool("efa-one", only("m6i.32xlarge"))
	w.pool("efa-four", only("p4d.24xlarge"))
	pod := func(pool string, efas int64) corev1.PodSpec {
		return w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
			s.NodeSelector[karpv1.NodePoolLabelKey] = pool
			if efas > 0 {
				q := corev1.ResourceList{awsv1.ResourceEFA: *resource.NewQuantity(efas, resource.DecimalSI)}
				s.Containers[0].Resources.Limits = q
				s.Containers[0].Resources.Requests[awsv1.ResourceEFA] = q[awsv1.ResourceEFA]
			}
		})
	}
	w.deployment("plain", 1, pod("efa-one", 0))
	w.await(t, "the node without EFA", func() bool { return len(w.claimsOf("efa-one")) == 1 })
	w.deployment("one", 1, pod("efa-one", 1))
	w.deployment("four", 1, pod("efa-four", 4))
	w.awaitRunning(3)

	got := map[string][]string{}
	for _, pool := range []string{"efa-one", "efa-four"} {
		for _, i := range instancesOf(t, pool) {
			got[pool] = append(got[pool], layoutOf(i))
		}
		slices.Sort(got[pool])
	}
	const one, four = "[efa 0/0 interface 0/0]", "[efa 0/0, efa 1/1, efa 2/1, efa 3/1]"
	if fmt.Sprint(got["efa-one"]) != one || fmt.Sprint(got["efa-four"]) != four {
		t.Errorf("network interfaces %v, want %s and %s", got, one, four)
	}
	want := map[string]int64{"plain": 0, "one": 1, "four": 4}
	for _, p := range w.pods() {
		node := w.node(p.Object.Spec.NodeName).Object
		reported := node.Status.Allocatable[awsv1.ResourceEFA]
		for _, c := range slices.Concat(w.claimsOf("efa-one"), w.claimsOf("efa-four")) {
			offered := c.Object.Status.Allocatable[awsv1.ResourceEFA]
			if app := p.Object.Labels["app"]; c.Object.Status.NodeName == node.Name && (offered.Value() != want[app] || reported.Value() != want[app]) {
				t.Errorf("pod %s: the NodeClaim offers %s EFAs and the node reports %s, want %d", app, offered.String(), reported.String(), want[app])
			}
		}
	}
}
