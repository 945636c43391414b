package catalog

import "time"

// Names of slipway's own on Kubernetes objects and EC2 resources. Everything else carries Karpenter's names.
const (
	// StartingTaintKey is the key of the NoSchedule taint that a Node has until its promised pods are bound.
	StartingTaintKey = "slipway.dev/starting"
	// PodsAnnotation on a NodeClaim lists the pods promised to it, as a JSON list of objects with uids, schedulerOnly and adopted.
	PodsAnnotation = "slipway.dev/pods"
	// ForPodsAnnotation on a NodeClaim, with the value "true", means that it was launched for pods that were promised its node. A NodeClaim of a
	// CapacityBuffer, of a static NodePool or of a user has none, even where pods are promised its node later.
	ForPodsAnnotation = "slipway.dev/for-pods"
	// BindingsAnnotation on a NodeClaim records when and by which rule each of its promised pods is bound: a JSON list of objects with at,
	// rule, why and uids.
	BindingsAnnotation = "slipway.dev/bindings"
	// LaunchAnnotation on a NodeClaim, and the tag of the same name on instances, is the ID of the launch attempt: the client token of its
	// CreateFleet call.
	LaunchAnnotation = "slipway.dev/launch"
	// ExpectedAnnotation on a NodeClaim is the offering that the plan assumes: TYPE/ZONE/CAPACITY-TYPE/PRICE, the price of the node
	// in USD per hour, all charges included.
	ExpectedAnnotation = "slipway.dev/expected"
	// CostAnnotation on a NodeClaim is the price of ExpectedAnnotation by part, as JSON (Cost).
	CostAnnotation = "slipway.dev/cost"
	// CoveredByAnnotation on a NodeClaim is the name of the Savings Plan or Reserved Instances that paid for its instance when it was planned.
	CoveredByAnnotation = "slipway.dev/covered-by"
	// PassedOverAnnotation on a NodeClaim is the instance type with a lower list price that was not chosen, and why.
	PassedOverAnnotation = "slipway.dev/passed-over"
	// InstanceTypesAnnotation on a NodeClaim lists its instance types, cheapest first, joined by commas: requirements have no order.
	InstanceTypesAnnotation = "slipway.dev/instance-types"
	// ReplacesAnnotation on a NodeClaim lists the terminating nodes whose pods it was launched for, separated by commas.
	ReplacesAnnotation = "slipway.dev/replaces"
	// StandbyAnnotation on a NodeClaim is the UID of the standby CapacityBuffer for whose pods it was launched.
	StandbyAnnotation = "slipway.dev/standby"
	// StandbyStateAnnotation on such a NodeClaim is where its instance is in its life, and since when: STATE/TIME. Package record has the states.
	StandbyStateAnnotation = "slipway.dev/standby-state"
	// StandbyExpiresAnnotation on such a NodeClaim, with the value "true", means that it expires soon: its buffer has another one launched first.
	StandbyExpiresAnnotation = "slipway.dev/standby-expires"
	// StandbyKeptAnnotation on such a NodeClaim says why its instance was not stopped, where that is a pod on its node that was not promised it.
	StandbyKeptAnnotation = "slipway.dev/standby-kept"
	// WokenAnnotation on a Node, with the value "true", means that its instance was stopped or hibernated for a standby CapacityBuffer before: it boots faster
	// than a new one.
	WokenAnnotation = "slipway.dev/woken"
	// StandbyPrepareAnnotation on a standby CapacityBuffer is how long at most a node that is ready waits for its images before it is stopped.
	StandbyPrepareAnnotation = "slipway.dev/standby-prepare"
	// HibernateAnnotation on an EC2NodeClass, with the value "true", hibernates the instances of standby CapacityBuffers where EC2 can, instead of stopping
	// them.
	HibernateAnnotation = "slipway.dev/hibernate"
	// NodeAgeAnnotation on a NodePool is the minimum age of its nodes before consolidation disrupts them. It overrides the launcher's
	// setting.
	NodeAgeAnnotation = "slipway.dev/consolidation-node-age"
	// PodAgeAnnotation on a NodePool is how long a pod must have run before consolidation moves it almost as readily as an old one. It
	// overrides the launcher's setting.
	PodAgeAnnotation = "slipway.dev/consolidation-pod-age"
	// PausedAnnotation on a NodePool, with the value "true", pauses the voluntary disruption of its nodes.
	PausedAnnotation = "slipway.dev/disruption-paused"
	// NodeCostAnnotation on a NodePool is what each of its nodes costs beside what AWS charges, such as licenses and agents, in USD per hour.
	NodeCostAnnotation = "slipway.dev/node-cost"
	// BurstUseAnnotation on a NodePool is the percentage of the CPU that pods request which they are assumed to use on burstable instances;
	// 100 without it. Its NodeClaims carry it as well.
	BurstUseAnnotation = "slipway.dev/burst-use"
	// OnDemandShareAnnotation on a pod, or on a NodePool for the pods of each workload on its nodes, is the percentage of a workload's pods, 0 to
	// 100, that may not be on nodes which EC2 takes back at short notice.
	OnDemandShareAnnotation = "slipway.dev/min-on-demand-share"
	// LearnedAnnotation on an EC2NodeClass holds the reports of nodes by instance type and AMI, as JSON.
	LearnedAnnotation = "slipway.dev/learned-sizes"
	// PrefetchAnnotation on a booting Node lists the images of its promised pods in the order of pulling, joined by commas. On an
	// EC2NodeClass the value PrefetchOff disables prefetching on its nodes.
	PrefetchAnnotation = "slipway.dev/prefetch"
	// PrefetchOff is the value of PrefetchAnnotation that disables prefetching.
	PrefetchOff = "off"
	// DeletionCostAnnotation on a NodePool with the value DeletionCostOff leaves the order in which a ReplicaSet that shrinks ends its pods on the NodePool's nodes
	// to the ReplicaSet controller.
	DeletionCostAnnotation = "slipway.dev/pod-deletion-cost"
	// DeletionCostOff is the only value of DeletionCostAnnotation.
	DeletionCostOff = "off"
	// UnreadableAnnotation lists the fields of an object that cannot be decoded. The launcher's client adds it to the objects that it
	// returns; it is not on the API server.
	UnreadableAnnotation = "slipway.dev/unreadable"
)

// AgeOf returns the value of one of those annotations of a NodePool, or else the setting.
func AgeOf(annotations map[string]string, name string, setting time.Duration) time.Duration {
	if d, err := time.ParseDuration(annotations[name]); err == nil && d >= 0 {
		return d
	}
	return setting
}
