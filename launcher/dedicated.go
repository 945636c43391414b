package launcher

import (
	"context"
	"fmt"
	"sync"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
	"github.com/slipway-k8s/slipway/launcher/gauges"
)

// ownLists are the lists of instance types that NodePools have of their own: what NodeOverlays make of those of their classes, and those at the prices of
// dedicated tenancy. It is safe for concurrent use. While nothing has changed, it returns the same lists for the same lists: each caller has one of its own.
type ownLists struct {
	cache client.Reader
	// overlay is that of NodeOverlays; nil without the feature gate.
	overlay gauges.Overlay
	types   gauges.Types

	mu   sync.Mutex
	made overlay.Repriced
}

// apply returns them, by the lists of all classes. With an error, the NodeOverlays are those that were read last.
func (o *ownLists) apply(ctx context.Context, types map[string][]catalog.InstanceType) (out overlay.Result, err error) {
	if o.overlay != nil {
		out, err = o.overlay(ctx, types)
	}
	var pools karpv1.NodePoolList
	if bad := o.cache.List(ctx, &pools, client.UnsafeDisableDeepCopy); bad != nil {
		return out, fmt.Errorf("listing NodePools: %w", bad)
	}
	in := overlay.Input{Types: types}
	for i := range pools.Items {
		in.Pools = append(in.Pools, poolOf(&pools.Items[i]))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return out.Dedicated(in, o.made), err
}

func poolOf(p *karpv1.NodePool) overlay.Pool {
	out := overlay.Pool{Name: p.Name, Labels: template.Labels(p)}
	if ref := p.Spec.Template.Spec.NodeClassRef; ref != nil {
		out.NodeClass = ref.Name
	}
	return out
}

// of returns the list of one NodePool; false if it is that of its class. NodeOverlays are compared with each other, so that they need the lists of all
// classes.
func (o *ownLists) of(ctx context.Context, pool string) ([]catalog.InstanceType, bool) {
	object := &karpv1.NodePool{}
	if err := o.cache.Get(ctx, client.ObjectKey{Name: pool}, object); err != nil {
		return nil, false // It was deleted, with what was to be launched for it.
	}
	p := poolOf(object)
	if o.overlay == nil && p.Labels[catalog.LabelInstanceTenancy] != catalog.TenancyDedicated {
		return nil, false
	}
	types, err := o.typesFor(ctx, p)
	if err != nil {
		klog.FromContext(ctx).Error(err, "A NodePool has no prices of its own", "nodePool", pool)
		return nil, false
	}
	out := overlay.Result{}
	if o.overlay != nil {
		if out, err = o.overlay(ctx, types); err != nil {
			klog.FromContext(ctx).Error(err, "NodeOverlays could not be read: those that were read last count")
		}
	}
	_, list, ok := out.Dedicated(overlay.Input{Types: types, Pools: []overlay.Pool{p}}, overlay.Repriced{}).Of(pool)
	return list, ok
}

// typesFor returns the list of the NodePool's class, and with NodeOverlays those of the others. A class without an answer has none.
func (o *ownLists) typesFor(ctx context.Context, p overlay.Pool) (map[string][]catalog.InstanceType, error) {
	var classes awsv1.EC2NodeClassList
	if err := o.cache.List(ctx, &classes); err != nil {
		return nil, fmt.Errorf("listing EC2NodeClasses: %w", err)
	}
	out := map[string][]catalog.InstanceType{}
	for i := range classes.Items {
		name := classes.Items[i].Name
		if o.overlay == nil && name != p.NodeClass {
			continue
		}
		list, err := o.types(ctx, &classes.Items[i])
		if err != nil {
			klog.FromContext(ctx).V(2).Info("The other EC2NodeClasses are looked at", "EC2NodeClass", name, "err", err)
			continue
		}
		out[name] = list
	}
	return out, nil
}
