package clusterview_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// What a node counts toward the limits of its NodePool comes and goes with it, except toward the limit in USD, which holds at each moment.
func TestRecounted(t *testing.T) {
	node := func(pool, cpu string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"karpenter.sh/nodepool": pool}}}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi")}
		return n
	}
	bare := node("limited", "1")
	bare.Status.Allocatable, bare.Status.Capacity = bare.Status.Capacity, nil
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), "nodes": resource.MustParse("9"), catalog.LimitUSD: resource.MustParse("1")}
	cat := catalog.State{NodePools: map[string]catalog.NodePool{
		"limited": {Name: "limited", Limits: limits, Usage: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), "nodes": resource.MustParse("4"), catalog.LimitUSD: resource.MustParse("1"),
		}},
		"free": {Name: "free"},
	}}
	for name, c := range map[string]struct {
		more, less []*corev1.Node
		cpu, nodes string
	}{
		"nothing changes":         {nil, nil, "64", "4"},
		"two of three terminate":  {nil, []*corev1.Node{node("limited", "16"), node("limited", "8"), node("free", "4"), node("unknown", "4")}, "40", "2"},
		"one comes":               {[]*corev1.Node{node("limited", "2"), bare}, nil, "67", "6"},
		"more than was counted":   {nil, []*corev1.Node{node("limited", "65")}, "0", "3"},
		"one comes for one other": {[]*corev1.Node{node("limited", "8")}, []*corev1.Node{node("limited", "16")}, "56", "4"},
	} {
		got := clusterview.Recounted(cat, c.more, c.less).NodePools["limited"].Usage
		have := []string{got.Cpu().String(), quantity(got, "nodes"), quantity(got, catalog.LimitUSD)}
		if diff := cmp.Diff([]string{c.cpu, c.nodes, "1"}, have); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if cpu := cat.NodePools["limited"].Usage[corev1.ResourceCPU]; cpu.String() != "64" {
		t.Errorf("the catalog was changed: %s", cpu.String())
	}
}

func quantity(list corev1.ResourceList, name corev1.ResourceName) string {
	q := list[name]
	return q.String()
}
