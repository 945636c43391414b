package link

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// End describes an in-flight node that ended.
type End struct {
	// Node is the node as it was last received; only its NodeClaim and NodeName if it is Unshown.
	Node catalog.InFlightNode
	// Unshown means that the node was never received: it came and went between two messages.
	Unshown bool
	// Outcome is how it ended.
	Outcome api.Outcome
	// Reason is one CamelCase word, Message a sentence.
	Reason, Message string
	// Unbound are the UIDs of the promised pods that are not bound.
	Unbound []string
}

// Bound returns the UIDs of the promised pods that are bound.
func (e End) Bound() []string {
	out := make([]string, 0, len(e.Node.Pods))
	for _, ref := range e.Node.Pods {
		if !slices.Contains(e.Unbound, ref.UID) {
			out = append(out, ref.UID)
		}
	}
	return out
}

// apply returns the catalog after the message. It copies what it changes: the state before stays as it was.
func apply(before catalog.State, msg *api.CatalogUpdate) Update {
	out := Update{Full: msg.GetFull()}
	next := catalog.State{Generation: msg.GetGeneration()}
	if list := msg.GetCommitments(); list != nil {
		next.Commitments = commitments(list)
	} else if !msg.GetFull() {
		next.Commitments = before.Commitments
	}
	if !msg.GetFull() {
		next.NodePools = maps.Clone(before.NodePools)
		next.InstanceTypes = maps.Clone(before.InstanceTypes)
		next.InFlight = maps.Clone(before.InFlight)
	}
	if next.NodePools == nil {
		next.NodePools = map[string]catalog.NodePool{}
	}
	if next.InstanceTypes == nil {
		next.InstanceTypes = map[string][]catalog.InstanceType{}
	}
	if next.InFlight == nil {
		next.InFlight = map[string]catalog.InFlightNode{}
	}
	for _, p := range msg.GetNodePools() {
		next.NodePools[p.GetName()] = nodePool(p)
	}
	for _, name := range msg.GetRemovedNodePools() {
		delete(next.NodePools, name)
	}
	for _, t := range msg.GetInstanceTypes() {
		next.InstanceTypes[t.GetNodeClass()] = instanceTypes(t.GetTypes())
	}
	for _, name := range msg.GetRemovedNodeClasses() {
		delete(next.InstanceTypes, name)
	}
	for _, n := range msg.GetInFlight() {
		next.InFlight[n.GetNodeClaim()] = inFlightNode(n)
		out.Changed = append(out.Changed, n.GetNodeClaim())
	}
	for _, e := range msg.GetEnded() {
		out.Ended = append(out.Ended, end(next.InFlight, e))
		delete(next.InFlight, e.GetNodeClaim())
	}
	out.Offers = msg.GetFull() || len(msg.GetNodePools())+len(msg.GetRemovedNodePools())+
		len(msg.GetInstanceTypes())+len(msg.GetRemovedNodeClasses()) > 0 || msg.GetCommitments() != nil
	out.State = next
	return out
}

func end(known map[string]catalog.InFlightNode, e *api.InFlightEnd) End {
	node, shown := known[e.GetNodeClaim()]
	if !shown {
		node = catalog.InFlightNode{NodeClaim: e.GetNodeClaim()}
	}
	if e.GetNodeName() != "" {
		node.NodeName = e.GetNodeName()
	}
	return End{Node: node, Unshown: !shown, Outcome: e.GetOutcome(), Reason: e.GetReason(), Message: e.GetMessage(), Unbound: e.GetUnboundPods()}
}

func nodePool(p *api.NodePool) catalog.NodePool {
	return catalog.NodePool{
		Name: p.GetName(), NodeClass: p.GetNodeClass(), Overlaid: p.GetOverlaid(), Labels: p.GetLabels(),
		Taints: taints(p.GetTaints()), StartupTaints: taints(p.GetStartupTaints()),
		Requirements: requirements(p.GetRequirements()), Weight: p.GetWeight(),
		Limits: quantities(p.GetLimits()), Usage: quantities(p.GetUsage()),
		Ready: p.GetReady(), NotReadyMessage: p.GetNotReadyMessage(), Generation: p.GetGeneration(),
		Declared: catalog.Declared{NodeCost: p.GetNodeCost(), IdleCPU: p.GetIdleCpu()}, HandedOver: p.GetHandedOver(),
		OnDemandShare: p.GetOnDemandShare(),
	}
}

func instanceTypes(list []*api.InstanceType) []catalog.InstanceType {
	out := make([]catalog.InstanceType, 0, len(list))
	for _, t := range list {
		it := catalog.InstanceType{
			Name: t.GetName(), Labels: t.GetLabels(),
			Capacity: quantities(t.GetCapacity()), Allocatable: quantities(t.GetAllocatable()),
			VolumeAttachments: t.GetVolumeAttachments(), Charges: charges(t.GetCharges()),
		}
		for _, o := range t.GetOfferings() {
			it.Offerings = append(it.Offerings, catalog.Offering{
				Zone: o.GetZone(), ZoneID: o.GetZoneId(), CapacityType: o.GetCapacityType(), Price: o.GetPrice(),
				Available: o.GetAvailable(), UnavailableUntil: moment(o.GetUnavailableUntil()),
				Refusal: ec2error.Refusal{
					Code: ec2error.Code(o.GetRefusalCode()), Since: moment(o.GetRefusedSince()), Attempts: int(o.GetRefusedAttempts()),
				},
				ReservationID: o.GetReservationId(), ReservationType: o.GetReservationType(), Interruptible: o.GetInterruptible(), Remaining: o.GetRemaining(), Overlaid: o.GetOverlaid(),
				LossPerPod: o.GetLossPerPod(), SettlesAt: moment(o.GetSettlesAt()), Lasts: time.Duration(o.GetLasts()) * time.Millisecond,
			})
		}
		out = append(out, it)
	}
	return out
}

func commitments(in *api.Commitments) []commitment.Commitment {
	out := make([]commitment.Commitment, 0, len(in.GetList()))
	for _, c := range in.GetList() {
		out = append(out, commitment.Commitment{
			ID: c.GetId(), Kind: commitment.Kind(c.GetKind()), USDPerHour: c.GetUsdPerHour(), Discount: c.GetDiscount(), Rates: c.GetRates(),
			Family: c.GetFamily(), InstanceType: c.GetInstanceType(), Count: int(c.GetCount()), Zone: c.GetZone(), Share: c.GetShare(),
		})
	}
	return out
}

func charges(c *api.Charges) catalog.Charges {
	return catalog.Charges{
		Volumes: c.GetVolumes(), PublicIPv4: c.GetPublicIpv4(), BaselineCPU: c.GetBaselineCpu(), SurplusCPU: c.GetSurplusCpu(),
	}
}

func inFlightNode(n *api.InFlightNode) catalog.InFlightNode {
	out := catalog.InFlightNode{
		NodeClaim: n.GetNodeClaim(), NodeName: n.GetNodeName(), NodePool: n.GetNodePool(),
		Phase:  catalog.Phase(n.GetPhase()),
		Labels: n.GetLabels(), Taints: taints(n.GetTaints()), Allocatable: quantities(n.GetAllocatable()),
		Replaces: n.GetReplaces(), Deadline: moment(n.GetDeadline()),
		InstanceType: n.GetInstanceType(), Zone: n.GetZone(), CapacityType: n.GetCapacityType(),
		Standby: n.GetStandby(), Stopping: n.GetStopping(), Outdated: n.GetOutdated(),
		Bound: n.GetBoundPods(), Started: n.GetStarted(),
	}
	for _, p := range n.GetPods() {
		out.Pods = append(out.Pods, catalog.PodRef{
			Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUid(), SchedulerOnly: p.GetSchedulerOnly(), Adopted: p.GetAdopted(),
		})
	}
	return out
}

func taints(list []*api.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range list {
		out = append(out, corev1.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: corev1.TaintEffect(t.GetEffect())})
	}
	return out
}

func requirements(list []*api.Requirement) []catalog.Requirement {
	var out []catalog.Requirement
	for _, r := range list {
		out = append(out, catalog.Requirement{
			Key: r.GetKey(), Operator: corev1.NodeSelectorOperator(r.GetOperator()), Values: r.GetValues(), MinValues: r.GetMinValues(),
		})
	}
	return out
}

// quantities leaves out values that are no quantities. The launcher validates them, and one bad value must not stop the others.
func quantities(m map[string]string) corev1.ResourceList {
	if len(m) == 0 {
		return nil
	}
	out := make(corev1.ResourceList, len(m))
	for name, text := range m {
		if q, err := resource.ParseQuantity(text); err == nil {
			out[corev1.ResourceName(name)] = q
		}
	}
	return out
}

func moment(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}
