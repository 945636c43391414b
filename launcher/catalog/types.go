package catalog

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is all that a plan needs to know of the launcher's side. It is a value: nobody changes it once it is shared.
type State struct {
	// Generation rises with each change that the launcher told.
	Generation uint64
	// NodePools by name.
	NodePools map[string]NodePool
	// InstanceTypes by name of the EC2NodeClass, since allocatable depends on it.
	InstanceTypes map[string][]InstanceType
	// InFlight holds the nodes that are not initialized yet, by name of their NodeClaim.
	InFlight map[string]InFlightNode
}

// NodePool is what a plan needs of a karpenter.sh/v1 NodePool.
type NodePool struct {
	// Name of the NodePool.
	Name string
	// NodeClass is the name of its EC2NodeClass.
	NodeClass string
	// Labels of every node of the pool, karpenter.sh/nodepool included.
	Labels map[string]string
	// Taints that nodes of the pool keep.
	Taints []corev1.Taint
	// StartupTaints that somebody removes before the node is initialized; a plan ignores them.
	StartupTaints []corev1.Taint
	// Requirements of the template.
	Requirements []Requirement
	// Weight: pools of higher weight are used first (0 to 100).
	Weight int32
	// Limits by resource name, of capacity, `nodes` included; a resource without an entry has no limit.
	Limits corev1.ResourceList
	// Usage is the capacity of all nodes of the pool, in-flight ones included, and their number as `nodes`.
	Usage corev1.ResourceList
	// Ready says whether the pool may launch.
	Ready bool
	// NotReadyMessage says why not, for a human.
	NotReadyMessage string
	// Generation of the NodePool's spec that this is.
	Generation int64
}

// InstanceType is what one EC2 instance type offers to pods when it is launched from one EC2NodeClass.
type InstanceType struct {
	// Name such as m7g.large.
	Name string
	// Labels that a Node of this type has whatever its offering: instance type, architecture, operating system and the
	// karpenter.k8s.aws ones.
	Labels map[string]string
	// Capacity of the node.
	Capacity corev1.ResourceList
	// Allocatable to pods: a lower bound of what the kubelet will report.
	Allocatable corev1.ResourceList
	// VolumeAttachments is how many EBS volumes pods can have on the node: a lower bound of what the EBS CSI driver will
	// report in the CSINode; 0 where EC2 tells no limit.
	VolumeAttachments int64
	// Offerings in which the type can be bought.
	Offerings []Offering
}

// Offering is one way to buy an instance type.
type Offering struct {
	// Zone such as us-east-1a.
	Zone string
	// ZoneID such as use1-az4.
	ZoneID string
	// CapacityType is spot, on-demand or reserved (karpenter.sh/capacity-type).
	CapacityType string
	// Price in USD per hour; next to nothing where it is reserved, since that is paid already.
	Price float64
	// ReservationID of the capacity reservation, for CapacityType reserved only; empty otherwise.
	ReservationID string
	// ReservationType is default or capacity-block (karpenter.k8s.aws/capacity-reservation-type); empty otherwise.
	ReservationType string
	// Remaining is how many instances the reservation still holds; it has no meaning for other capacity types.
	Remaining int64
	// Available is false while EC2 is known to have no capacity.
	Available bool
	// UnavailableUntil is when it will be tried again; zero where Available.
	UnavailableUntil time.Time
	// Probation says that launches of it failed lately, for want of capacity: only pods that no other offering can run are to
	// try it. The scheduler's side notes it; the launcher does not tell it.
	Probation bool
}

// Phase says how far an in-flight node is.
type Phase int

// The phases in their order.
const (
	// PhaseRecorded: the NodeClaim is written, EC2 has not answered.
	PhaseRecorded Phase = iota + 1
	// PhaseLaunched: EC2 has launched an instance.
	PhaseLaunched
	// PhaseNodeCreated: the Node object exists.
	PhaseNodeCreated
	// PhaseRegistered: the kubelet has joined.
	PhaseRegistered
	// PhaseReady: the kubelet has posted Ready=True.
	PhaseReady
)

// InFlightNode is a NodeClaim whose Node is not initialized yet.
type InFlightNode struct {
	// NodeClaim is its name, NodeName the Node's, empty until EC2 has told it.
	NodeClaim, NodeName string
	// NodePool it was launched for.
	NodePool string
	// Phase of its start.
	Phase Phase
	// Labels that the Node has, or will have whichever alternative EC2 picks.
	Labels map[string]string
	// Taints that stay once the node is initialized.
	Taints []corev1.Taint
	// Allocatable is a lower bound over the alternatives until EC2 has chosen.
	Allocatable corev1.ResourceList
	// Pods whose slot is on this node, bound ones included.
	Pods []PodRef
	// Replaces are the names of the nodes that terminate whose pods this one is for, sorted; empty where it is for pending pods.
	Replaces []string
	// Deadline by which it must have joined.
	Deadline time.Time
	// InstanceType, Zone and CapacityType: expected until EC2 has chosen, then real.
	InstanceType, Zone, CapacityType string
}

// ReplacesNode reports whether the node is for pods of the named one, which terminates.
func (n InFlightNode) ReplacesNode(name string) bool {
	return name != "" && slices.Contains(n.Replaces, name)
}

// PodRef names one pod.
type PodRef struct {
	// Namespace and Name of the pod.
	Namespace, Name string
	// UID of the pod: a pod of the same name with another UID is another pod.
	UID string
	// SchedulerOnly is why only the scheduler's own cycle may bind the pod; empty where anybody may.
	SchedulerOnly string
	// Adopted says that the pod is another scheduler's, which learns from its nominatedNodeName where it goes.
	Adopted bool
}

// PodRefOf returns the pod's namespace, name and UID.
func PodRefOf(pod *corev1.Pod) PodRef {
	return PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}
