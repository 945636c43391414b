package catalog

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// State is the launcher's state that a plan needs. It is a value: it is not changed once it is shared.
type State struct {
	// Generation increases with each change that the launcher sent.
	Generation uint64
	// NodePools by name.
	NodePools map[string]NodePool
	// InstanceTypes by name of the EC2NodeClass, since allocatable depends on it, and those of NodePools that have a list of their own.
	InstanceTypes map[string][]InstanceType
	// InFlight holds the nodes that are not initialized yet, by name of their NodeClaim.
	InFlight map[string]InFlightNode
	// Commitments are the Savings Plans and Reserved Instances of the account, with this cluster's share of them.
	Commitments []commitment.Commitment
}

// NodePool is what a plan needs of a karpenter.sh/v1 NodePool.
type NodePool struct {
	// Name of the NodePool.
	Name string
	// NodeClass is the name of its EC2NodeClass.
	NodeClass string
	// Overlaid is the key of the pool's list in State.InstanceTypes where NodeOverlays make it differ from the EC2NodeClass's; empty if it is
	// the EC2NodeClass's.
	Overlaid string
	// Labels of every node of the pool, karpenter.sh/nodepool included.
	Labels map[string]string
	// Taints that nodes of the pool keep.
	Taints []corev1.Taint
	// StartupTaints are taints that another controller removes before the node is initialized; a plan ignores them.
	StartupTaints []corev1.Taint
	// Requirements of the template.
	Requirements []Requirement
	// Weight is the NodePool's weight (0 to 100): pools of higher weight are used first.
	Weight int32
	// Limits by resource name, of capacity, `nodes` included; a resource without an entry has no limit.
	Limits corev1.ResourceList
	// Usage is the capacity of all nodes of the pool, in-flight ones included, and their number as `nodes`.
	Usage corev1.ResourceList
	// Ready reports whether the pool may launch.
	Ready bool
	// NotReadyMessage is the reason, for people, why the pool is not ready.
	NotReadyMessage string
	// Declared is what its annotations say about the cost of its nodes.
	Declared
	// OnDemandShare is the smallest share, 0 to 1, of the pods of each workload that may not be on the pool's interruptible nodes
	// (OnDemandShareAnnotation).
	OnDemandShare float64
	// Generation is that of the NodePool's spec.
	Generation int64
	// HandedOver means that a Karpenter runs, and the NodePool is slipway's.
	HandedOver bool
}

// TypesKey returns the key of the pool's list in State.InstanceTypes.
func (p NodePool) TypesKey() string { return cmp.Or(p.Overlaid, p.NodeClass) }

// TypesOf returns the instance types that nodes of the named NodePool are launched from.
func (s State) TypesOf(pool string) []InstanceType {
	return s.InstanceTypes[s.NodePools[pool].TypesKey()]
}

// Offers reports whether EC2 has capacity of a node's offering, as far as it is known.
func (s State) Offers(n InFlightNode) bool {
	o, ok := s.OfferingOf(n)
	return ok && o.Available
}

// OfferingOf returns a node's offering; ok is false where the catalog does not have it any more.
func (s State) OfferingOf(n InFlightNode) (out Offering, ok bool) {
	for _, t := range s.TypesOf(n.NodePool) {
		if t.Name != n.InstanceType {
			continue
		}
		for _, o := range t.Offerings {
			if o.Zone == n.Zone && o.CapacityType == n.CapacityType && (o.Available || !ok) {
				out, ok = o, true
			}
		}
	}
	return out, ok
}

// InstanceType describes what nodes of one EC2 instance type, launched from one EC2NodeClass, offer to pods.
type InstanceType struct {
	// Name such as m7g.large.
	Name string
	// Labels are those of every Node of this type, whatever its offering: instance type, architecture, operating system and the
	// karpenter.k8s.aws ones.
	Labels map[string]string
	// Capacity of the node.
	Capacity corev1.ResourceList
	// Allocatable is a lower bound of the allocatable resources that the kubelet will report.
	Allocatable corev1.ResourceList
	// VolumeAttachments is how many EBS volumes pods can have on the node: a lower bound of what the EBS CSI driver will report in the
	// CSINode; 0 if EC2 returned no limit.
	VolumeAttachments int64
	// Charges are what a node costs beside its instance.
	Charges Charges
	// Partitions is the number of partitions of the placement group of the class's nodes; 0 for none.
	Partitions int64
	// Offerings are the ways in which the type can be bought.
	Offerings []Offering
	// Overlaid means that a NodeOverlay adds to Capacity. The launcher does not send it.
	Overlaid bool
	// DedicatedShare is by how much an instance of dedicated tenancy is more expensive, 0.06 for 6 %; 0 where that is not known. The launcher does not send
	// it: NodePools of dedicated tenancy have lists of their own.
	DedicatedShare float64
}

// Offering is one way to buy an instance type.
type Offering struct {
	// Zone such as us-east-1a.
	Zone string
	// ZoneID such as use1-az4.
	ZoneID string
	// CapacityType is spot, on-demand or reserved (karpenter.sh/capacity-type).
	CapacityType string
	// Price is what a node costs in USD per hour: its instance, which is close to zero for reserved capacity that is already paid for, and the
	// fixed part of the instance type's Charges.
	Price float64
	// LossPerPod is what interruptions are expected to cost for each pod on a node of the offering, in USD per hour.
	LossPerPod float64
	// SettlesAt is until when only pods that no other offering can run get a node of the offering, and no on-demand node is replaced by one, because
	// EC2 took nodes of it back or, in the plugin's view, refused them; zero for no such time.
	SettlesAt time.Time
	// Lasts is how long a spot node that replaces an on-demand node is expected to last until EC2 takes it back; zero for longer than matters.
	Lasts time.Duration
	// Overlaid means that a NodeOverlay set the price or changed it.
	Overlaid bool
	// ReservationID of the capacity reservation, for CapacityType reserved only; empty otherwise.
	ReservationID string
	// ReservationType is default or capacity-block (karpenter.k8s.aws/capacity-reservation-type); empty otherwise.
	ReservationType string
	// Interruptible means that the owner of the capacity reservation lends it and may reclaim it
	// (karpenter.k8s.aws/capacity-reservation-interruptible).
	Interruptible bool
	// Remaining is the number of free instances of the reservation; unused for other capacity types.
	Remaining int64
	// Available is false while EC2 is known to have no capacity.
	Available bool
	// UnavailableUntil is when the offering is tried again; zero if Available.
	UnavailableUntil time.Time
	// Refusal is what EC2 answered; zero if Available, or if the refusal is older than this launcher.
	Refusal ec2error.Refusal
	// Probation means that launches of the offering failed recently for lack of capacity: only pods that no other offering can run try it.
	// The plugin sets it; the launcher does not send it.
	Probation bool
}

// Phase is the progress of an in-flight node.
type Phase int

// The phases in their order.
const (
	// PhaseRecorded means that the NodeClaim is written and EC2 has not answered.
	PhaseRecorded Phase = iota + 1
	// PhaseLaunched means that EC2 has launched an instance.
	PhaseLaunched
	// PhaseNodeCreated means that the Node object exists.
	PhaseNodeCreated
	// PhaseRegistered means that the kubelet has joined.
	PhaseRegistered
	// PhaseReady means that the kubelet has posted Ready=True.
	PhaseReady
)

// InFlightNode is a NodeClaim whose Node is not initialized yet.
type InFlightNode struct {
	// NodeClaim is the claim's name. NodeName is the Node's, empty until EC2 has returned it.
	NodeClaim, NodeName string
	// NodePool is the NodePool that the node was launched for.
	NodePool string
	// Phase is the progress of its start.
	Phase Phase
	// Labels are those of the Node, or those that it will have whichever alternative EC2 picks.
	Labels map[string]string
	// Taints are those that remain once the node is initialized.
	Taints []corev1.Taint
	// Allocatable is a lower bound over the alternatives until EC2 has chosen.
	Allocatable corev1.ResourceList
	// Pods are those promised to this node, bound ones included.
	Pods []PodRef
	// Replaces are the names of the terminating nodes whose pods this node is for, sorted; empty if it is for pending pods.
	Replaces []string
	// Deadline is the time by which the node must have joined.
	Deadline time.Time
	// InstanceType, Zone and CapacityType are the expected ones until EC2 has chosen, then the real ones.
	InstanceType, Zone, CapacityType string
	// Standby is the UID of the standby buffer that it was launched for, until it is woken; empty for all others.
	Standby string
	// Stopping means that its instance is being stopped.
	Stopping bool
	// Outdated means that it has drifted. One of a standby buffer that expires soon is outdated as well: the buffer's room is planned elsewhere.
	Outdated bool
	// Bound are the UIDs of the promised pods that the launcher has bound.
	Bound []string
	// Started means that its startup taint is gone: promised pods that are not bound are the scheduler's.
	Started bool
}

// Sleeps reports whether the node is one of a standby buffer that no pod has been promised yet: its instance is stopped, or will be.
func (n InFlightNode) Sleeps() bool { return n.Standby != "" && len(n.Pods) == 0 }

// Undecided reports whether EC2 has yet to choose the node's instance type and offering: Labels lacks those of the node's labels that this decides.
func (n InFlightNode) Undecided() bool { return n.Phase <= PhaseRecorded && n.NodeName == "" }

// Stalled reports whether the node has drifted, and is not initialized although it is Ready. It may never be: the template may have been changed for that.
func (n InFlightNode) Stalled() bool {
	return n.Outdated && n.Standby == "" && n.Phase >= PhaseReady
}

// ReplacesNode reports whether the node is for pods of the named terminating node.
func (n InFlightNode) ReplacesNode(name string) bool {
	return name != "" && slices.Contains(n.Replaces, name)
}

// PodRef names one pod.
type PodRef struct {
	// Namespace and Name of the pod.
	Namespace, Name string
	// UID is the pod's UID: a pod of the same name with another UID is a different pod.
	UID string
	// SchedulerOnly is the reason why only the scheduler's own cycle may bind the pod; empty if the launcher may bind it too.
	SchedulerOnly string
	// Adopted means that the pod belongs to another scheduler, which reads the pod's node from nominatedNodeName.
	Adopted bool
}

// VirtualUIDPrefix begins the UIDs of pods that exist in plans alone, those of capacity buffers. The API server's UIDs have no slash.
const VirtualUIDPrefix = "buffer/"

// Virtual reports whether the pod exists in plans alone.
func (r PodRef) Virtual() bool { return strings.HasPrefix(r.UID, VirtualUIDPrefix) }

// PodRefOf returns the pod's namespace, name and UID.
func PodRefOf(pod *corev1.Pod) PodRef {
	return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}
