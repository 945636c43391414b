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

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Types returns what can be launched with a class, with prices.
type Types func(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)

// Overlay returns what NodeOverlays make of the instance types of all classes, by their names.
type Overlay func(ctx context.Context, types map[string][]catalog.InstanceType) (overlay.Result, error)

// CostConfig is what a Cost reads.
type CostConfig struct {
	// Reader reads NodePools and EC2NodeClasses from the cache.
	Reader client.Reader
	// Cache reads NodeClaims and pods.
	Cache index.Cache
	// Leading reports whether this replica leads: of two, only one reports.
	Leading func() bool
	// Types lists the instance types of an EC2NodeClass.
	Types Types
	// Overlay may be nil: AWS's prices count.
	Overlay Overlay
}

// Cost is a prometheus.Collector of the hourly cost of each NodePool's nodes, and of its parts.
type Cost struct {
	config       CostConfig
	total, parts family
}

var _ prometheus.Collector = (*Cost)(nil)

// NewCost returns a Cost of the NodeClaims in the cache, which reports it while leading.
func NewCost(config CostConfig) (*Cost, error) {
	if config.Reader == nil || !config.Cache.Complete() || config.Leading == nil || config.Types == nil {
		return nil, errors.New("gauges: Reader, Cache, Leading and Types are required")
	}
	return &Cost{config: config, total: newFamily(
		"karpenter_nodepools_cost_total", "What the nodes of a NodePool cost, in USD per hour, at current prices: instances, volumes, addresses, surplus CPU of burstable instances and what the NodePool declares.", "nodepool",
	), parts: newFamily(
		"slipway_nodepool_cost", "What the nodes of a NodePool cost, in USD per hour, at current prices, by part. The parts but interruptions, which AWS does not charge, add up to karpenter_nodepools_cost_total.",
		"nodepool", "part",
	)}, nil
}

// Describe implements prometheus.Collector.
func (c *Cost) Describe(to chan<- *prometheus.Desc) {
	to <- c.total.desc
	to <- c.parts.desc
}

// Collect implements prometheus.Collector.
func (c *Cost) Collect(to chan<- prometheus.Metric) {
	if !c.config.Leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	pools, classes := &karpv1.NodePoolList{}, &awsv1.EC2NodeClassList{}
	errLists := errors.Join(c.config.Reader.List(ctx, pools, client.UnsafeDisableDeepCopy), c.config.Reader.List(ctx, classes, client.UnsafeDisableDeepCopy))
	claims, errClaims := c.config.Cache.Claims.All(ctx)
	pods, errPods := c.config.Cache.Pods.All(ctx)
	if err := errors.Join(errLists, errClaims, errPods); err != nil {
		klog.Background().V(2).Info("Costs are not reported: the cache is not filled yet", "err", err)
		return
	}
	prices, raw := map[string]map[place]priced{}, map[string][]catalog.InstanceType{}
	for i := range classes.Items {
		class := classes.Items[i].DeepCopy()
		types, err := c.config.Types(ctx, class)
		if err != nil {
			klog.Background().V(4).Info("The nodes of an EC2NodeClass have no price", "EC2NodeClass", class.Name, "err", err)
		}
		prices[class.Name], raw[class.Name] = pricesOf(types), types
	}
	own := c.overlaid(ctx, raw)
	for key, types := range own.Lists {
		prices[key] = pricesOf(types)
	}
	perNode := interrupted(pods)
	costs, declared := map[string]catalog.Cost{}, map[string]catalog.Declared{}
	for i := range pools.Items {
		declared[pools.Items[i].Name], _ = catalog.DeclaredCost(pools.Items[i].Annotations) // The NodePool's condition reports the error.
	}
	for _, claim := range claims {
		if ref := claim.Spec.NodeClassRef; ref != nil && claim.Status.ProviderID != "" && !provider.OthersClaim(claim) {
			name := claim.Labels[karpv1.NodePoolLabelKey]
			price := prices[cmp.Or(own.Keys[name], ref.Name)][placeOf(claim)]
			costs[name] = costs[name].Plus(price.cost(claim, declared[name], perNode[claim.Status.NodeName]))
		}
	}
	out := newCollection(to)
	for i := range pools.Items {
		name := pools.Items[i].Name
		cost := costs[name]
		out.gauge(c.total, catalog.Micro(cost.Total()-cost.Interruptions), name)
		for _, part := range cost.Parts() {
			out.gauge(c.parts, catalog.Micro(part.USD), name, part.Label)
		}
	}
}

// interrupted counts the pods whose interruption costs something, by node: those that are not of DaemonSets and have not ended.
func interrupted(pods []*corev1.Pod) map[string]int {
	out := map[string]int{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !disruption.Terminal(pod) && !disruption.OfDaemonSet(pod) {
			out[pod.Spec.NodeName]++
		}
	}
	return out
}

// overlaid returns the lists of NodePools that NodeOverlays make different.
func (c *Cost) overlaid(ctx context.Context, raw map[string][]catalog.InstanceType) overlay.Result {
	if c.config.Overlay == nil {
		return overlay.Result{}
	}
	out, err := c.config.Overlay(ctx, raw)
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
	price, lossPerPod float64
	of                *catalog.InstanceType
}

// cost returns what the claim's node costs with so many pods, while they request what the NodeClaim was planned with.
func (p priced) cost(claim *karpv1.NodeClaim, declared catalog.Declared, pods int) catalog.Cost {
	if p.of == nil {
		return catalog.Cost{Declared: declared.NodeCost}
	}
	out := p.of.CostOf(p.price, declared, claim.Spec.Resources.Requests.Cpu().MilliValue())
	if record.StandbyOf(claim).Off() { // EC2 bills the volumes of a stopped instance alone.
		return catalog.Cost{Volumes: out.Volumes}
	}
	out.Interruptions = p.lossPerPod * float64(pods)
	return out
}

func pricesOf(types []catalog.InstanceType) map[place]priced {
	out := map[place]priced{}
	for i := range types {
		for _, o := range types[i].Offerings {
			out[place{types[i].Name, o.Zone, o.CapacityType}] = priced{o.Price, o.LossPerPod, &types[i]}
		}
	}
	return out
}
