package billing

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/internal/workload"
	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Objects are the cluster as the cache has it, with prices.
type Objects struct {
	// Now is the time.
	Now time.Time
	// Claims are the cluster's NodeClaims, slipway's and those of other providers.
	Claims []*karpv1.NodeClaim
	// Nodes are the cluster's, slipway's and others.
	Nodes []*corev1.Node
	// Pods are those that run, by the names of their nodes; PodsOf returns them.
	Pods map[string][]bill.Pod
	// Pools are the cluster's NodePools.
	Pools []karpv1.NodePool
	// Types are the instance types by EC2NodeClass, and by the keys of Overlaid.
	Types map[string][]catalog.InstanceType
	// Overlaid are the keys of NodePools whose prices NodeOverlays change.
	Overlaid map[string]string
	// Commitments are the account's.
	Commitments []commitment.Commitment
}

// place is the key of a price. Without a capacity type it is the price on demand, unless a NodeOverlay decides that.
type place struct{ list, instanceType, zone, capacityType string }

// priced is an offering's price with its instance type.
type priced struct {
	price float64
	of    *catalog.InstanceType
	// overlaid means that a NodeOverlay decides the price.
	overlaid bool
}

// Look returns the observation of the objects: the nodes that EC2 has launched, at today's prices. The objects may be the cache's: they are not changed.
func Look(in Objects) bill.Observation {
	prices := map[place]priced{}
	for list, types := range in.Types {
		for i := range types {
			for _, o := range types[i].Offerings {
				prices[place{list, types[i].Name, o.Zone, o.CapacityType}] = priced{o.Price, &types[i], o.Overlaid}
				if o.Coverable() {
					prices[place{list, types[i].Name, o.Zone, ""}] = priced{o.Price, &types[i], false}
				}
			}
		}
	}
	nodes := map[string]*corev1.Node{}
	for _, node := range in.Nodes {
		nodes[node.Name] = node
	}
	declared := map[string]catalog.Declared{}
	for i := range in.Pools {
		declared[in.Pools[i].Name], _ = catalog.DeclaredCost(in.Pools[i].Annotations) // The NodePool's condition reports the error.
	}
	paid := in.commitments()
	out := bill.Observation{At: in.Now, Unused: paid.unused, Commitments: paid.uses}
	for _, claim := range in.Claims {
		if claim.Status.ProviderID == "" || provider.OthersClaim(claim) {
			continue
		}
		n := nodeOf(claim, nodes[claim.Status.NodeName])
		if claim.Labels[catalog.LabelInstanceTenancy] == catalog.TenancyDedicated {
			n.HourFee = catalog.DedicatedFee
		}
		n.Pods = in.Pods[claim.Status.NodeName]
		p := in.priceOf(claim, prices)
		n.PerHour, n.Burst = p.cost(claim, declared[n.NodePool])
		n.PerHour.Volumes *= catalog.HoursPerMonth / catalog.HoursOfMonth(in.Now)
		if record.StandbyOf(claim).Off() {
			// EC2 bills the volumes of a stopped instance alone, and nothing runs there.
			n.PerHour, n.Burst, n.Allocatable, n.HourFee = bill.Parts{Volumes: n.PerHour.Volumes}, catalog.Charges{}, bill.Amounts{}, 0
			out.Nodes = append(out.Nodes, n)
			continue
		}
		if !p.overlaid { // A NodeOverlay's price wins over all.
			paid.cover(&n.PerHour, claim)
		}
		out.Nodes = append(out.Nodes, n)
	}
	return out
}

// priceOf returns the price of a node's offering now, as if no commitment paid for it; without an instance type if it is not in the catalog any more.
func (in *Objects) priceOf(claim *karpv1.NodeClaim, prices map[place]priced) priced {
	at := place{
		instanceType: claim.Labels[corev1.LabelInstanceTypeStable], zone: claim.Labels[corev1.LabelTopologyZone], capacityType: claim.Labels[karpv1.CapacityTypeLabelKey],
	}
	if ref := claim.Spec.NodeClassRef; ref != nil {
		at.list = ref.Name
	}
	if key := in.Overlaid[claim.Labels[karpv1.NodePoolLabelKey]]; key != "" {
		at.list = key
	}
	p := prices[at]
	if catalog.CapacityTypeOf(at.capacityType).Counted && claim.Labels[catalog.LabelReservationType] != catalog.ReservationTypeBlock {
		at.capacityType = "" // What the account pays for instances in a capacity reservation. Those of a Capacity Block are paid for upfront.
		if onDemand, there := prices[at]; there {
			p = onDemand
		}
	}
	return p
}

// cost returns what a node costs. If its offering is not in the catalog any more, it is what was recorded when the node was planned.
func (p priced) cost(claim *karpv1.NodeClaim, d catalog.Declared) (bill.Parts, catalog.Charges) {
	if p.of == nil {
		cost, _ := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
		return bill.Parts{Instance: cost.Instance, Volumes: cost.Volumes, PublicIPv4: cost.PublicIPv4, Declared: d.NodeCost}, catalog.Charges{}
	}
	cost := p.of.CostOf(p.price, d, 0)
	return bill.Parts{Instance: cost.Instance, Volumes: cost.Volumes, PublicIPv4: cost.PublicIPv4, Declared: cost.Declared}, p.of.Charges.Assuming(d.IdleCPU)
}

func nodeOf(claim *karpv1.NodeClaim, node *corev1.Node) bill.Node {
	out := bill.Node{ID: string(claim.UID), NodePool: claim.Labels[karpv1.NodePoolLabelKey], Since: claim.CreationTimestamp.Time}
	if launched := conditions.Claim(claim, karpv1.ConditionTypeLaunched); launched.IsTrue() {
		out.Since = launched.LastTransitionTime.Time
	}
	c := conditions.Claim(claim, karpv1.ConditionTypeDisruptionReason)
	if claim.DeletionTimestamp != nil && c.IsTrue() && interrupted(c.Reason) {
		out.Interrupted = c.LastTransitionTime.Time
	}
	out.Ended = ended(claim)
	out.Interruptible = catalog.CapacityTypeOf(claim.Labels[karpv1.CapacityTypeLabelKey]).Interruptible
	// EC2 charges the instance if a person terminates it.
	out.TakenAway = out.Interruptible && !out.Interrupted.IsZero() && c.Reason == string(cloud.SpotInterrupted) && takenAway(claim)
	allocatable := claim.Status.Allocatable
	if node != nil && len(node.Status.Allocatable) > 0 {
		allocatable = node.Status.Allocatable
	}
	out.Allocatable = amounts(allocatable)
	return out
}

// ended returns when the launcher let EC2 terminate a NodeClaim's instance; zero if it did not.
func ended(claim *karpv1.NodeClaim) time.Time {
	if c := conditions.Claim(claim, karpv1.ConditionTypeInstanceTerminating); c.IsTrue() {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// takenAway reports whether EC2 terminated a NodeClaim's instance before the launcher let it.
func takenAway(claim *karpv1.NodeClaim) bool {
	c := conditions.Claim(claim, karpv1.ConditionTypeInstanceTerminating)
	return c.IsTrue() && c.Reason == reasonTaken
}

// interrupted reports whether EC2 took the node away.
func interrupted(reason string) bool {
	return slices.Contains([]cloud.MessageKind{
		cloud.SpotInterrupted, cloud.CapacityReservation, cloud.InstanceStopped, cloud.InstanceTerminated, cloud.ScheduledChange,
	}, cloud.MessageKind(reason))
}

// accelerators are the extended resources that weigh as accelerators.
func accelerators() []corev1.ResourceName {
	return []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "aws.amazon.com/neuron"}
}

func amounts(list corev1.ResourceList) bill.Amounts {
	out := bill.Amounts{CPU: list.Cpu().MilliValue(), Memory: list.Memory().Value()}
	for _, name := range accelerators() {
		q := list[name]
		if n := q.Value(); n > 0 {
			out.Accelerators += min(n, 1<<20)
		}
	}
	return out
}

// PodsOf returns the pods of one node that run, in the order in which they came.
func PodsOf(pods []*corev1.Pod) []bill.Pod {
	out := make([]bill.Pod, 0, len(pods))
	for _, pod := range pods {
		if !disruption.Terminal(pod) {
			out = append(out, podOf(pod))
		}
	}
	return bill.InOrder(out)
}

func podOf(pod *corev1.Pod) bill.Pod {
	return bill.Pod{
		UID: string(pod.UID), Key: keyOf(pod), Since: since(pod),
		Requests: amounts(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})),
	}
}

// since returns when a pod came to its node: it was bound, or started if it was created there.
func since(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// keyOf returns what a pod is charged to: its controller, or the Deployment or CronJob of that, as their names say it.
func keyOf(pod *corev1.Pod) bill.Key {
	out := bill.Key{Namespace: pod.Namespace, Kind: "Pod", Name: pod.Name, Labels: labelsOf(pod.Labels)}
	if kind, name := workload.Of(pod); kind != "" {
		out.Kind, out.Name = kind, name
	}
	switch out.Kind {
	case "Job":
		// The CronJob controller appends the minute, in minutes since 1970.
		if at := strings.LastIndexByte(out.Name, '-'); at > 0 && len(out.Name)-at-1 >= 8 && strings.Trim(out.Name[at+1:], "0123456789") == "" {
			out.Kind, out.Name = "CronJob", out.Name[:at]
		}
	case "Node":
		out.Name = strings.TrimSuffix(pod.Name, "-"+out.Name) // A static pod.
	}
	return out
}

// labelsOf returns the labels that are recorded, sorted, as far as they are no longer than bill.MostLabels.
func labelsOf(labels map[string]string) string {
	var out []string
	for key, value := range labels {
		if strings.HasPrefix(key, bill.LabelPrefix) {
			out = append(out, key+"="+value)
		}
	}
	slices.Sort(out)
	length := 0
	for i, pair := range out {
		if length += len(pair) + 1; length > bill.MostLabels {
			return strings.Join(out[:i], ",")
		}
	}
	return strings.Join(out, ",")
}
