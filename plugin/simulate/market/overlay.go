package market

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// overlay applies the NodeOverlays, and the prices of dedicated tenancy. One that the API server returned without a condition is left out: no launcher applies it, since the
// feature gate NodeOverlay is off.
func (b *builder) overlay(ctx context.Context, objects *input.Objects) {
	in := overlay.Input{Types: b.state.InstanceTypes}
	for _, o := range objects.NodeOverlays {
		if o.UID != "" && len(o.Status.Conditions) == 0 {
			b.market.Notes = append(b.market.Notes, fmt.Sprintf("NodeOverlay %s: left out, since the cluster applies none: the launcher's feature gate NodeOverlay is off", o.Name))
			continue
		}
		in.Overlays = append(in.Overlays, o)
	}
	for _, p := range objects.NodePools {
		in.Pools = append(in.Pools, overlay.Pool{Name: p.Name, NodeClass: b.state.NodePools[p.Name].NodeClass, Labels: template.Labels(p)})
	}
	result := overlay.Result{}
	if len(in.Overlays) > 0 {
		result = overlay.Evaluate(ctx, in)
	}
	result = result.Dedicated(in, overlay.Repriced{})
	for name, key := range result.Keys {
		pool := b.state.NodePools[name]
		pool.Overlaid = key
		b.state.NodePools[name] = pool
	}
	maps.Copy(b.state.InstanceTypes, result.Lists)
	for _, name := range slices.Sorted(maps.Keys(result.Verdicts)) {
		switch v := result.Verdicts[name]; {
		case v.Unmatched:
			b.problem("NodeOverlay "+name, "spec", "%s", v.Message)
		case v.Reason != "":
			b.problem("NodeOverlay "+name, "spec", "%s: %s. It is not applied", v.Reason, v.Message)
		}
	}
}

// typesKey returns the key of the instance types that the claim was launched from.
func (b *builder) typesKey(claim *karpv1.NodeClaim) string {
	return cmp.Or(b.state.NodePools[claim.Labels[karpv1.NodePoolLabelKey]].Overlaid, classOf(claim))
}
