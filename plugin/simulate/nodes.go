package simulate

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// NodeUse is a node of a NodePool with its price and with what its pods request.
type NodeUse struct {
	// Name of the Node; of the NodeClaim where InFlight.
	Name string
	// NodePool it belongs to.
	NodePool string
	// InstanceType, Zone and CapacityType of the node; the expected ones before EC2 has chosen.
	InstanceType, Zone, CapacityType string
	// CoveredBy is the name of the commitments that pay for the instance of a node to launch; empty for none.
	CoveredBy string
	// InFlight means that the node is launched and has no Node yet.
	InFlight bool
	// Price in USD per hour; 0 where it is not known.
	Price float64
	// Cost is Price by part.
	Cost catalog.Cost
	// CPU in cores and Memory in bytes, with the requests of DaemonSets' pods.
	CPU, Memory Share
	// Pods as namespace/name, without those of DaemonSets and static ones.
	Pods []string
}

// Share is what pods request of what a node has.
type Share struct {
	// Requested is the sum of the pods' requests.
	Requested float64
	// Allocatable is what the node has for pods.
	Allocatable float64
}

// Plus returns the sum of both parts.
func (s Share) Plus(o Share) Share {
	return Share{Requested: s.Requested + o.Requested, Allocatable: s.Allocatable + o.Allocatable}
}

// sharesOf returns the shares of CPU and memory.
func sharesOf(requests, allocatable corev1.ResourceList) (cpu, memory Share) {
	cpu = Share{Requested: requests.Cpu().AsApproximateFloat64(), Allocatable: allocatable.Cpu().AsApproximateFloat64()}
	memory = Share{Requested: requests.Memory().AsApproximateFloat64(), Allocatable: allocatable.Memory().AsApproximateFloat64()}
	return cpu, memory
}

// request adds the requests of a pod to what the node's pods request, several times.
func (n *NodeUse) request(pod *corev1.Pod, times int) {
	cpu, memory := sharesOf(plan.PodRequests(pod), nil)
	n.CPU.Requested += float64(times) * cpu.Requested
	n.Memory.Requested += float64(times) * memory.Requested
}

// Nodes returns the nodes of the input's NodePools before the plan, in-flight ones included, and after it, with those to launch. Both are
// sorted by name.
func (o *Outcome) Nodes(ctx context.Context) (before, after []NodeUse) {
	before = append(usesOf(ctx, o.objects, o.cat), o.inFlight()...)
	slices.SortFunc(before, byName)
	after = slices.Clone(before)
	at := make(map[string]int, len(after))
	for i := range after {
		at[after[i].Name] = i
	}
	for _, p := range o.Plan.Placements {
		i, ok := at[p.Node]
		if !ok || after[i].InFlight != p.InFlight {
			continue // A node of no NodePool.
		}
		after[i].Pods = slices.Concat(after[i].Pods, podsOf(p.Members))
		for _, m := range p.Members {
			after[i].request(o.Input.Classes[m.Class].Pod, len(m.Pods))
		}
	}
	for i := range o.Plan.Claims {
		c := &o.Plan.Claims[i]
		n := NodeUse{
			Name: c.Name, NodePool: c.NodePool, InstanceType: c.Expected.InstanceType, Zone: c.Expected.Zone, CapacityType: c.Expected.CapacityType,
			CoveredBy: c.Covered, Price: catalog.Micro(c.Expected.Price), Cost: c.Cost.Rounded(), Pods: podsOf(c.Members),
		}
		n.CPU, n.Memory = sharesOf(c.Requests, c.Allocatable)
		after = append(after, n)
	}
	slices.SortFunc(after, byName)
	return before, after
}

func byName(a, b NodeUse) int { return cmp.Compare(a.Name, b.Name) }

// Owners are the workloads of all pods of the input, such as "Deployment shop/web", by their namespace/name.
func (o *Outcome) Owners() map[string]string { return owners(o.objects) }

// Outside returns how many nodes of the input belong to none of its NodePools.
func (o *Outcome) Outside() int {
	pools, out := poolNames(o.objects), 0
	for _, n := range o.objects.Nodes {
		if !pools[n.Labels[karpv1.NodePoolLabelKey]] {
			out++
		}
	}
	return out
}

func poolNames(objects *input.Objects) map[string]bool {
	out := make(map[string]bool, len(objects.NodePools))
	for _, p := range objects.NodePools {
		out[p.Name] = true
	}
	return out
}

// inFlight returns the nodes that are launched and have no Node in the input.
func (o *Outcome) inFlight() []NodeUse {
	pods := map[string]*corev1.Pod{}
	for _, p := range o.objects.Pods {
		pods[string(p.UID)] = p.Pod
	}
	var out []NodeUse
	for _, name := range slices.Sorted(maps.Keys(o.cat.InFlight)) {
		n := o.cat.InFlight[name]
		if n.NodeName != "" {
			continue
		}
		node := consolidate.Node{Offer: consolidate.Offer{NodePool: n.NodePool, InstanceType: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType}}
		use := NodeUse{Name: name, NodePool: n.NodePool, InstanceType: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType, InFlight: true}
		use.CPU, use.Memory = sharesOf(nil, n.Allocatable)
		var promised []*corev1.Pod
		for _, ref := range n.Pods {
			use.Pods = append(use.Pods, nameOf(ref))
			if pod := pods[ref.UID]; pod != nil {
				promised = append(promised, pod)
				use.request(pod, 1)
			}
		}
		node.SetPrice(o.cat, promised)
		use.Price, use.Cost = node.Price, partsOf(node, o.cat)
		out = append(out, use)
	}
	return out
}

// Nodes returns the nodes of the input's NodePools now and after all moves, sorted by name. Pods of DaemonSets that a node lacks count:
// their controller creates them.
func (s *Saving) Nodes(ctx context.Context) (before, after []NodeUse) {
	return usesOf(ctx, s.first, s.cat), usesOf(ctx, s.last, s.cat)
}

// usesOf returns the nodes of the objects' NodePools, sorted by name, at the prices that consolidation counts.
func usesOf(ctx context.Context, objects *input.Objects, cat catalog.State) []NodeUse {
	pools := poolNames(objects)
	pods := make(map[string][]*corev1.Pod, len(objects.Nodes))
	for _, p := range objects.Pods {
		if p.Spec.NodeName != "" {
			pods[p.Spec.NodeName] = append(pods[p.Spec.NodeName], p.Pod)
		}
	}
	labels := make(map[string]map[string]string, len(objects.Nodes))
	var of []*corev1.Node
	var fleet []consolidate.Node
	for _, n := range objects.Nodes {
		labels[n.Name] = n.Labels
		if pools[n.Labels[karpv1.NodePoolLabelKey]] {
			var moving []consolidate.Pod
			for _, p := range pods[n.Name] {
				if disruption.Occupies(p) {
					moving = append(moving, consolidate.Pod{Name: p.Namespace + "/" + p.Name})
				}
			}
			of, fleet = append(of, n), append(fleet, priced(cat, n, pods[n.Name], moving))
		}
	}
	lower(cat, fleet, labels)
	out := make([]NodeUse, 0, len(of))
	for i, n := range of {
		f := &fleet[i]
		use := NodeUse{
			Name: n.Name, NodePool: f.NodePool, InstanceType: f.InstanceType, Zone: f.Zone, CapacityType: f.CapacityType,
			Price: f.Price, Cost: partsOf(*f, cat),
		}
		use.CPU, use.Memory = sharesOf(nil, n.Status.Allocatable)
		for _, p := range pods[n.Name] {
			use.request(p, 1)
			if disruption.Occupies(p) {
				use.Pods = append(use.Pods, p.Namespace+"/"+p.Name)
			}
		}
		for _, p := range missingDaemons(klog.FromContext(ctx), n, pods[n.Name], objects.DaemonSets) {
			use.request(p, 1)
		}
		slices.Sort(use.Pods)
		out = append(out, use)
	}
	slices.SortFunc(out, byName)
	return out
}

// partsOf returns the parts of a node's price. What commitments pay for lowers the part of the instance.
func partsOf(n consolidate.Node, cat catalog.State) catalog.Cost {
	if n.Price == 0 {
		return catalog.Cost{}
	}
	out := catalog.Cost{
		Volumes: n.Charges.Volumes, PublicIPv4: n.Charges.PublicIPv4, Burst: n.Charges.Burst(n.CPU), Declared: cat.NodePools[n.NodePool].NodeCost,
		Interruptions: n.LossPerPod * float64(len(n.Pods)),
	}
	out.Instance = max(n.Price-out.Total(), 0)
	return out.Rounded()
}
