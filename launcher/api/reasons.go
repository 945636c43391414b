package api

// Reasons of results and of ends that say nothing about the NodePool: its other launches may succeed.
const (
	// ReasonLimitsExceeded means that the claim would exceed the NodePool's spec.limits.
	ReasonLimitsExceeded = "LimitsExceeded"
	// ReasonGangIncomplete means that another member of the claim's group was refused.
	ReasonGangIncomplete = "GangIncomplete"
	// ReasonPodsBound means that each pod of the claim is bound by now.
	ReasonPodsBound = "PodsBound"
	// ReasonInstanceTerminated means that EC2 took the instance away before its node was ready.
	ReasonInstanceTerminated = "instance_terminated"
)
