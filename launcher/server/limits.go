package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// nodesLimit is the resource by which a NodePool limits the number of its nodes.
const nodesLimit corev1.ResourceName = "nodes"

// overLimits refuses the claims that would take a NodePool over spec.limits, in the order of the request: the plan counted
// with a state that may be older than what other writers have done since.
func (s *Server) overLimits(ctx context.Context, claims []*api.Claim) ([]error, error) {
	out := make([]error, len(claims))
	pools := map[string]*pool{}
	for i, c := range claims {
		p, ok := pools[c.GetNodePool()]
		if !ok {
			var err error
			if p, err = s.poolOf(ctx, c.GetNodePool()); err != nil {
				return nil, err
			}
			pools[c.GetNodePool()] = p
		}
		if reason := p.take(c); reason != "" {
			out[i] = &refusal{"LimitsExceeded", fmt.Sprintf("claim %s: NodePool %s: %s", c.GetName(), c.GetNodePool(), reason)}
		}
	}
	return out, nil
}

// pool is what limits one NodePool.
type pool struct {
	limits, usage corev1.ResourceList
	// recorded are the names of its NodeClaims: a claim that is sent again counts once.
	recorded map[string]bool
	types    offered
}

// poolOf reads a NodePool with limits; nil stands for one that has none or does not exist.
func (s *Server) poolOf(ctx context.Context, name string) (*pool, error) {
	object := &karpv1.NodePool{}
	if err := s.config.Client.Get(ctx, types.NamespacedName{Name: name}, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if len(object.Spec.Limits) == 0 {
		return nil, nil
	}
	var list karpv1.NodeClaimList
	if err := s.config.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	classes := s.types.get()
	p := &pool{limits: corev1.ResourceList(object.Spec.Limits), recorded: map[string]bool{}, types: classes[className(object)]}
	var own []karpv1.NodeClaim
	for i := range list.Items {
		if claim := &list.Items[i]; claim.Labels[karpv1.NodePoolLabelKey] == name {
			own = append(own, *estimated(claim, classes))
			p.recorded[claim.Name] = true
		}
	}
	p.usage = nodepool.Usage(own)
	return p, nil
}

// take counts a claim, or says which limit it would exceed.
func (p *pool) take(c *api.Claim) string {
	if p == nil || p.recorded[c.GetName()] {
		return ""
	}
	next := p.usage.DeepCopy()
	add := maps.Clone(p.types.byName[c.GetExpected().GetInstanceType()].Capacity)
	if add == nil {
		add = corev1.ResourceList{}
	}
	add[nodesLimit] = *resource.NewQuantity(1, resource.DecimalSI)
	for name, q := range add {
		sum := next[name]
		sum.Add(q)
		next[name] = sum
	}
	for _, name := range slices.Sorted(maps.Keys(p.limits)) {
		limit, used := p.limits[name], next[name]
		if used.Cmp(limit) > 0 {
			return fmt.Sprintf("spec.limits.%s: %s would be more than %s", name, used.String(), limit.String())
		}
	}
	p.usage = next
	p.recorded[c.GetName()] = true
	return ""
}
