package gauges

import (
	"cmp"
	"context"
	"errors"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
)

// Types returns what can be launched with a class, with prices.
type Types func(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)

// Overlay returns what NodeOverlays make of the instance types of all classes, by their names.
type Overlay func(ctx context.Context, types map[string][]catalog.InstanceType) (overlay.Result, error)

// Cost is a prometheus.Collector of the hourly cost of each NodePool's nodes.
type Cost struct {
	cache   client.Reader
	leading func() bool
	types   Types
	overlay Overlay
	total   *prometheus.Desc
}

var _ prometheus.Collector = (*Cost)(nil)

// NewCost returns a Cost of the NodeClaims in the cache, which reports it while leading. Without an overlay, AWS's prices count.
func NewCost(cache client.Reader, leading func() bool, types Types, overlay Overlay) (*Cost, error) {
	if cache == nil || leading == nil || types == nil {
		return nil, errors.New("gauges: a cache, whether we lead and instance types are required")
	}
	return &Cost{cache: cache, leading: leading, types: types, overlay: overlay, total: prometheus.NewDesc(
		"karpenter_nodepools_cost_total", "What the nodes of a NodePool cost, in USD per hour, at current prices: instances, volumes, addresses, surplus CPU of burstable instances and what the NodePool declares.", []string{"nodepool"}, nil,
	)}, nil
}

// Describe implements prometheus.Collector.
func (c *Cost) Describe(to chan<- *prometheus.Desc) { to <- c.total }

// Collect implements prometheus.Collector.
func (c *Cost) Collect(to chan<- prometheus.Metric) {
	if !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	pools, claims, classes := &karpv1.NodePoolList{}, &karpv1.NodeClaimList{}, &awsv1.EC2NodeClassList{}
	for _, list := range []client.ObjectList{pools, claims, classes} {
		if err := c.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			klog.Background().V(2).Info("Costs are not reported: the cache is not filled yet", "err", err)
			return
		}
	}
	prices, raw := map[string]map[place]priced{}, map[string][]catalog.InstanceType{}
	for i := range classes.Items {
		class := classes.Items[i].DeepCopy()
		types, err := c.types(ctx, class)
		if err != nil {
			klog.Background().V(4).Info("The nodes of an EC2NodeClass have no price", "EC2NodeClass", class.Name, "err", err)
		}
		prices[class.Name], raw[class.Name] = pricesOf(types), types
	}
	own := c.overlaid(ctx, raw)
	for key, types := range own.Lists {
		prices[key] = pricesOf(types)
	}
	costs, declared := map[string]float64{}, map[string]catalog.Declared{}
	for i := range pools.Items {
		declared[pools.Items[i].Name], _ = catalog.DeclaredCost(pools.Items[i].Annotations) // The NodePool's condition reports the error.
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if ref := claim.Spec.NodeClassRef; ref != nil && claim.Status.ProviderID != "" {
			name := claim.Labels[karpv1.NodePoolLabelKey]
			costs[name] += prices[cmp.Or(own.Keys[name], ref.Name)][placeOf(claim)].cost(claim, declared[name])
		}
	}
	for i := range pools.Items {
		name := pools.Items[i].Name
		to <- gauge(c.total, catalog.Micro(costs[name]), name)
	}
}

// overlaid returns the lists of NodePools that NodeOverlays make different.
func (c *Cost) overlaid(ctx context.Context, raw map[string][]catalog.InstanceType) overlay.Result {
	if c.overlay == nil {
		return overlay.Result{}
	}
	out, err := c.overlay(ctx, raw)
	if err != nil {
		klog.Background().V(2).Info("Costs are those of the NodeOverlays that were read last", "err", err)
	}
	return out
}

// place is the key of a price.
type place struct{ instanceType, zone, capacityType string }

func placeOf(claim *karpv1.NodeClaim) place {
	return place{claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.CapacityTypeLabelKey]}
}

// priced is an offering's price with its instance type; zero if the class has no such offering.
type priced struct {
	price float64
	of    *catalog.InstanceType
}

// cost returns what the claim's node costs while its pods request what the NodeClaim was planned with.
func (p priced) cost(claim *karpv1.NodeClaim, declared catalog.Declared) float64 {
	if p.of == nil {
		return declared.NodeCost
	}
	return p.of.CostOf(p.price, declared, claim.Spec.Resources.Requests.Cpu().MilliValue()).Total()
}

func pricesOf(types []catalog.InstanceType) map[place]priced {
	out := map[place]priced{}
	for i := range types {
		for _, o := range types[i].Offerings {
			out[place{types[i].Name, o.Zone, o.CapacityType}] = priced{o.Price, &types[i]}
		}
	}
	return out
}
