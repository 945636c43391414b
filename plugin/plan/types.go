package plan

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/budget"
)

// Input is all that a plan depends on: the same input gives the same plan.
type Input struct {
	// Now is when the plan is made; zero for a plan that takes each spot offering as settled.
	Now time.Time
	// Catalog is what can be launched and what is being launched.
	Catalog catalog.State
	// Classes are the pods to place, grouped by identical needs, in the order of their first pod in the queue.
	Classes []Class
	// Nodes are those that exist, for topology spread and affinity, and with Free set also as room.
	Nodes []Node
	// DaemonSets whose pods take room on every node that they fit.
	DaemonSets []*appsv1.DaemonSet
	// Rejected placements, from verification: a plan must not repeat them.
	Rejected []Rejection
	// NewName returns a name for a claim of the pool. One that was given before gets a number behind it; nil numbers all claims.
	NewName func(nodePool string) string
	// Replaces are the names of the nodes whose pods are planned, on every claim; empty for pending pods.
	Replaces []string
	// Namespaces are the labels of each namespace by its name, for namespaceSelectors; nil where they are not known.
	Namespaces map[string]map[string]string
	// Finished are how many pods of a gang have had their node and are not replaced, by the gang's name; nil for none.
	Finished map[string]int
	// PreferenceShare is how much more preferences may cost than the pods that have them cost without: 0.1 for a tenth. Preferred node
	// and pod affinity, ScheduleAnyway spread and PreferNoSchedule taints are not looked at where it is 0 or less.
	PreferenceShare float64
	// MinValuesBestEffort keeps as many of a NodePool's minValues as can be had (Karpenter's minValuesPolicy BestEffort);
	// otherwise a node that cannot keep them is not launched (Strict).
	MinValuesBestEffort bool
	// Options say how the plan is made.
	Options Options
	// budget bounds the work of the whole question; nil for a budget without end.
	budget *budget.Budget
	// sketch says that neither first-fit's bill nor a proof is looked at.
	sketch bool
	// maker remembers compiled offers; nil for none.
	maker *Maker
	// second says that Nodes are all there will be, but for those that the limits leave room for.
	second bool
}

// Class is pods of identical scheduling needs.
type Class struct {
	// Key identifies the class; equal keys mean equal needs.
	Key string
	// Pod stands for all: its spec, labels and namespace are what the plan reads.
	Pod *corev1.Pod
	// Pods of the class.
	Pods []catalog.PodRef
	// DefaultSpread are the topology spread constraints that the scheduler's profile adds to a pod that has none
	// (PodTopologySpreadArgs.defaultConstraints), with the selector it derives from the pod's services and owner.
	DefaultSpread []corev1.TopologySpreadConstraint
	// AddedAffinity is the node affinity that the scheduler's profile requires of its pods (NodeAffinityArgs.addedAffinity); nil for
	// none. Topology spread does not look at it.
	AddedAffinity *corev1.NodeSelector
	// Volumes are the persistent ones of one pod, generic ephemeral ones included.
	Volumes []Volume
	// Claims says whether the pods' ResourceClaims can be planned for; nil if they are not looked at.
	Claims *Claims
	// OffSpot is why OffSpotTerms rule spot nodes out, beyond what the pods ask for themselves; empty if there are none.
	OffSpot string
	// OffSpotTerms are further requirements on a node's labels, of which one must be met; none for all nodes. They are not the pods' own: the filters
	// do not see them, and a topology spread counts the nodes that they rule out.
	OffSpotTerms []catalog.Requirements
}

// Claims is what is known of the ResourceClaims of a class's pods.
type Claims struct {
	// Problem is why no node can be launched for them; nil if the resources that the class requests stand for their devices.
	Problem *Reason
}

// Volume is a persistent volume of a pod, as far as it says where the pod can run.
type Volume struct {
	// Claim is the name of the PersistentVolumeClaim.
	Claim string
	// Name of the PersistentVolume; empty before the claim is bound.
	Name string
	// Driver is the CSI driver that attaches it: ebs.csi.aws.com for one of the instance type's VolumeAttachments. Empty
	// for a volume that needs none.
	Driver string
	// Terms say which nodes reach it, one of them has to match: the node affinity of the bound PersistentVolume, or the
	// allowedTopologies of the StorageClass where it is bound late. None for all nodes.
	Terms []corev1.NodeSelectorTerm
	// ReadWriteOncePod means that one pod at a time may use the claim, of all pods of the cluster. False for the claim of a generic ephemeral volume,
	// which no other pod is meant to use.
	ReadWriteOncePod bool
	// Problem is why no node will do, for a human: the claim does not exist or is lost, it is not bound though its
	// StorageClass binds at once, it is ReadWriteOncePod and in use. Empty for none.
	Problem string
}

// Node is a node that exists or is in flight, as a plan sees it.
type Node struct {
	// Name of the Node or, in flight, of the NodeClaim.
	Name string
	// Labels and Taints that it has once it is initialized.
	Labels map[string]string
	// Taints as above.
	Taints []corev1.Taint
	// Free is what is left for more pods, `pods` included; nil means that the node is no room, only a neighbour.
	Free corev1.ResourceList
	// Pods on it (or promised to it), for spread and affinity.
	Pods []*corev1.Pod
	// Attachable is how many more volumes of each CSI driver the node can attach (CSINode's allocatable count less those
	// attached); a driver without an entry has no limit.
	Attachable map[string]int64
	// Rank orders the rooms of nodes that exist: those of a lower rank are filled first. Rooms of equal rank are filled by name.
	Rank int
}

// Plan lists the NodeClaims to launch, the placements on existing and in-flight nodes, and the pods that could not be placed, with reasons.
type Plan struct {
	// Claims to launch.
	Claims []Claim
	// Placements on nodes that exist or are in flight.
	Placements []Placement
	// Unplaced classes.
	Unplaced []Unplaced
	// CostPerHour of the claims, at their expected offerings, in USD.
	CostPerHour float64
	// FirstFitPerHour is what first-fit decreasing would pay for the same pods, in USD: for comparison.
	FirstFitPerHour float64
	// PlainCostPerHour is what the claims would cost without preferences; CostPerHour is at most PreferenceShare above it.
	PlainCostPerHour float64
	// Ignored are the preferences that the plan does not keep to, in the order of the classes.
	Ignored []IgnoredPreference
	// Problems are mistakes in the input. What they are about is left out of the plan or read as the problem says, the
	// rest is planned.
	Problems []Problem
	// CutShort says that the context ended before the plan was as good as it could be made. The plan is still valid.
	CutShort bool
	// oversized are the indices of the DaemonSets that are not counted, as their pods are larger than each node that they match.
	oversized []int
	// proofs are what packing learned for LowerBound.
	proofs []proof
	// kept are the preferences that the plan keeps.
	kept []keptPreference
}

// keptPreference is a preference that a plan keeps: its place among all preferences of the input, and for one about hosts how many pods a node has at
// most.
type keptPreference struct{ id, skew int }

// IgnoredPreference is a preference of a class that the plan does not keep to.
type IgnoredPreference struct {
	// Class is the index into Input.Classes.
	Class int
	// Preference as a human would write it.
	Preference string
	// Reason: no node has it, or it costs too much.
	Reason string
}

// Problem is a mistake in an object of the input.
type Problem struct {
	// Object is kind and name, such as "NodePool default" or "Pod default/web-1".
	Object string
	// Field is the path to what is wrong, such as spec.template.spec.requirements[2].operator.
	Field string
	// Message says what is wrong and what was expected.
	Message string
}

// String is "OBJECT: FIELD: MESSAGE".
func (p Problem) String() string { return p.Object + ": " + p.Field + ": " + p.Message }

// Claim is one node to launch. Claims of one plan may share lists of names and values, and lists of resources: who wants
// others writes new ones.
type Claim struct {
	// Name of the NodeClaim.
	Name string
	// NodePool it belongs to.
	NodePool string
	// Requirements: the pool's, narrowed to what its pods and alternatives need.
	Requirements []catalog.Requirement
	// Expected is the offering that the plan counts on.
	Expected Offer
	// Cost is the price of the expected offering by part, in USD per hour.
	Cost catalog.Cost
	// Covered is the name of the commitments that pay for the node; empty for none. The price is what is counted for such a node.
	Covered string
	// PassedOver is the instance type with a lower list price that the pods allow, and why it was not chosen; empty for none.
	PassedOver string
	// Alternatives are the instance types that also run all pods, cheapest first, the expected one first, 60 at most
	// (the limit of CreateFleet's overrides as Karpenter uses it).
	Alternatives []string
	// Labels and Taints of the node if the expected offering is launched.
	Labels map[string]string
	// Taints as above, without start-up taints.
	Taints []corev1.Taint
	// Allocatable of the expected instance type.
	Allocatable corev1.ResourceList
	// Requests is the sum over the pods and the daemon pods.
	Requests corev1.ResourceList
	// Members are the pods by class.
	Members []Member
	// Replaces are the names of the nodes whose pods this claim is for; empty for pending pods.
	Replaces []string
	// DRADrivers are the drivers whose devices the members' ResourceClaims need, sorted; empty for none.
	DRADrivers []string
	// Standby is the UID of the standby buffer whose pods alone the node is for; empty for none.
	Standby string
	// Expects is the room that is left for pods that are expected; none for nearly all.
	Expects []Room
}

// Offer is an instance type in one offering.
type Offer struct {
	// InstanceType, Zone and CapacityType as in the catalog.
	InstanceType, Zone, CapacityType string
	// Price is what the node costs in USD per hour, with what its NodePool declares (catalog.NodePool.NodeCost).
	Price float64
}

// Same reports whether both are the same offering. Their prices may differ: that of a claim's expected offering has what its pods add.
func (o Offer) Same(other Offer) bool {
	return o.InstanceType == other.InstanceType && o.Zone == other.Zone && o.CapacityType == other.CapacityType
}

// Member is the pods of one class on one node.
type Member struct {
	// Class is the index into Input.Classes.
	Class int
	// Pods of the class placed here.
	Pods []catalog.PodRef
}

// Placement is pods on a node of the input that exists or is in flight.
type Placement struct {
	// Node is the NodeClaim's name where InFlight, otherwise the Node's.
	Node string
	// InFlight says which of the two it is.
	InFlight bool
	// Members are the pods by class.
	Members []Member
}

// Rejection is a verdict of the scheduler's filters: pods of Class do not go where the plan put them.
type Rejection struct {
	// ClassKey of the rejected pods.
	ClassKey string
	// Node is set where the placement was on an existing or in-flight node: not there again.
	Node string
	// NodePool, InstanceType, Zone and CapacityType of the claim it was placed in; an empty one matches any.
	NodePool, InstanceType, Zone, CapacityType string
	// With are the keys of the classes it shared the claim with; where set, only sharing with one of them is ruled out.
	With []string
	// MaxPerNode, where positive, is how many pods of the class one node may hold.
	MaxPerNode int
	// Reason is the filter's, for a human.
	Reason string
}

// Unplaced is a class for which no node could be planned.
type Unplaced struct {
	// Class is the index into Input.Classes.
	Class int
	// Pods of the class that are not placed.
	Pods []catalog.PodRef
	// Reasons, one per NodePool at least, in the order of the pools' weight and name.
	Reasons []Reason
}

// Reason says why a NodePool does not run a class.
type Reason struct {
	// NodePool that was asked; empty for a reason that holds for all.
	NodePool string
	// Code is one CamelCase word: NotReady, NodePoolNotSelected, TaintNotTolerated, RequirementsConflict, NoInstanceTypeFits,
	// NoOfferingAvailable, LimitExceeded, FilterRejected, SpreadUnsatisfiable, AffinityUnsatisfiable, VolumeConflict,
	// GangIncomplete, PriorityTooLow, NotSupported, InvalidPod or PlanningCutShort (see OutOfTime).
	Code string
	// Message for a human, with the figures that decided: what was asked and what is nearest.
	Message string
	// Nearest is what the nearest instance type has where the pod asks for more.
	Nearest Nearest
	// cause narrows the code for what the planner does next.
	cause cause
}

// Nearest is what the instance type that comes nearest has allocatable beside daemon pods, of the resources of which a pod asks for more.
type Nearest struct {
	// MilliCPU in thousandths of a core and Bytes of memory; 0 for one that is not short.
	MilliCPU, Bytes int64
}

// cause is what decides whether planning again may help.
type cause int

const (
	_ cause = iota
	// minValuesLost means that a node for the pod cannot keep minValues of its NodePool.
	minValuesLost
	// noNeighbor means that required pod affinity finds no pod that it can join.
	noNeighbor
)

// proof is what packing for the pools of one weight learned of their pods: what LowerBound starts from.
type proof struct {
	weight int32
	// values are what one pod of each class was taken to be worth, in USD per hour; 0 for unknown.
	values []float64
	// pods are how many of each class bound is for, in USD per hour; it is 0 where none was proven on the way.
	pods  []int
	bound float64
}

// plannedPrefix begins the name of a planned node where it stands for one that exists: no Node can be called so.
const plannedPrefix = "planned/"
