package simulate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// Without returns the objects without nodes, given by their names or those of their NodeClaims. Their pods are pending, but for those of DaemonSets and
// static ones, which end with them. It returns an error that names a node which is not there.
func Without(objects *input.Objects, nodes []string) (*input.Objects, error) {
	var gone []string
	for _, name := range nodes {
		for _, claim := range objects.NodeClaims {
			if claim.Name == name && claim.Status.NodeName != "" {
				name = claim.Status.NodeName
				break
			}
		}
		if !slices.ContainsFunc(objects.Nodes, func(n *corev1.Node) bool { return n.Name == name }) {
			return nil, fmt.Errorf("removing node %s: there is no such node", name)
		}
		gone = append(gone, name)
	}
	c := &cluster{objects: objects, shapes: map[string]int{}}
	out := c.left(gone)
	out.NodePools = slices.Clone(out.NodePools)
	for i, p := range out.NodePools { // What their status counts are the nodes of before.
		unused := *p
		unused.Status.Resources = nil
		out.NodePools[i] = &unused
	}
	return out, nil
}

// left returns the objects without nodes.
func (c *cluster) left(gone []string) *input.Objects {
	going := map[string]bool{}
	for _, name := range gone {
		going[name] = true
	}
	after := *c.objects
	after.Nodes = slices.DeleteFunc(slices.Clone(c.objects.Nodes), func(n *corev1.Node) bool { return going[n.Name] })
	after.NodeClaims = slices.DeleteFunc(slices.Clone(c.objects.NodeClaims), func(n *karpv1.NodeClaim) bool { return going[n.Status.NodeName] })
	after.Pods = make([]input.Pod, 0, len(c.objects.Pods))
	for _, p := range c.objects.Pods {
		switch {
		case !going[p.Spec.NodeName]:
		case !disruption.Occupies(p.Pod):
			continue
		default:
			p.Pod = onNode(p.Pod, "")
			p.Shape = c.shape(p.Pod)
		}
		after.Pods = append(after.Pods, p)
	}
	return &after
}
