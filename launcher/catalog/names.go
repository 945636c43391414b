package catalog

import "time"

// Names of slipway's own on Kubernetes objects and EC2 resources. Everything else carries Karpenter's names.
const (
	// StartingTaintKey is the key of the NoSchedule taint that a Node has until its promised pods are bound.
	StartingTaintKey = "slipway.dev/starting"
	// PodsAnnotation on a NodeClaim lists the pods promised to it, as a JSON list of objects with namespace, name,
	// uid and schedulerOnly.
	PodsAnnotation = "slipway.dev/pods"
	// BindingsAnnotation on a NodeClaim says when each of its promised pods is bound, and by which rule: a JSON list of objects with
	// at, rule, why and pods.
	BindingsAnnotation = "slipway.dev/bindings"
	// LaunchAnnotation on a NodeClaim, and the tag of the same name on instances, is the id of the launch attempt: the
	// client token of its CreateFleet call.
	LaunchAnnotation = "slipway.dev/launch"
	// ExpectedAnnotation on a NodeClaim is the offering that the plan counted on:
	// TYPE/ZONE/CAPACITY-TYPE/PRICE, the price in USD per hour.
	ExpectedAnnotation = "slipway.dev/expected"
	// InstanceTypesAnnotation on a NodeClaim lists its instance types, cheapest first, joined by commas: requirements
	// have no order.
	InstanceTypesAnnotation = "slipway.dev/instance-types"
	// ReplacesAnnotation on a NodeClaim names the nodes that terminate for whose pods it was launched, separated by commas.
	ReplacesAnnotation = "slipway.dev/replaces"
	// NodeAgeAnnotation on a NodePool is how long its nodes are left alone by consolidation after they were bought, in place of the
	// launcher's setting.
	NodeAgeAnnotation = "slipway.dev/consolidation-node-age"
	// PodAgeAnnotation on a NodePool is how long its nodes' pods have to have run to be moved almost as readily as old ones, in place of
	// the launcher's setting.
	PodAgeAnnotation = "slipway.dev/consolidation-pod-age"
	// LearnedAnnotation on an EC2NodeClass holds what nodes of its instance types and AMIs have reported, as JSON.
	LearnedAnnotation = "slipway.dev/learned-sizes"
	// PrefetchAnnotation on a Node that boots lists the images of its promised pods, in the order in which they are to be
	// pulled, joined by commas. On an EC2NodeClass the value PrefetchOff keeps its nodes from pulling ahead.
	PrefetchAnnotation = "slipway.dev/prefetch"
	// PrefetchOff is the value of PrefetchAnnotation that switches it off.
	PrefetchOff = "off"
	// UnreadableAnnotation names the fields of an object that cannot be read: it stands on what the launcher's client
	// returns, never on the API server.
	UnreadableAnnotation = "slipway.dev/unreadable"
)

// AgeOf is what a NodePool says by one of those annotations, or else the setting.
func AgeOf(annotations map[string]string, name string, setting time.Duration) time.Duration {
	if d, err := time.ParseDuration(annotations[name]); err == nil && d >= 0 {
		return d
	}
	return setting
}
