package demo

import (
	"slices"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// Report is what `slipway-sandbox demo --output json` prints.
type Report struct {
	// OK says that every step came true.
	OK bool `json:"ok"`
	// Steps in their order; those after a failed one are not there.
	Steps []Step `json:"steps"`
	// Pods of the Deployments, over the whole story.
	Pods Pods `json:"pods"`
	// Nodes as they were once all pods ran.
	Nodes []Node `json:"nodes"`
	// CostPerHour of these nodes in USD.
	CostPerHour float64 `json:"costPerHour"`
	// LowerBoundPerHour that no set of nodes for these pods can beat, in USD.
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	// FirstFitPerHour is what first-fit decreasing would pay for these pods, in USD.
	FirstFitPerHour float64 `json:"firstFitPerHour"`
	// Instances on EC2, over the whole story.
	Instances Instances `json:"instances"`
	// Seconds that the stages of the scale-up took.
	Seconds observe.Timings `json:"seconds"`
}

// Step is one step of the story.
type Step struct {
	// Name of the step.
	Name string `json:"name"`
	// OK says that it came true.
	OK bool `json:"ok"`
	// Seconds it took.
	Seconds float64 `json:"seconds"`
	// Detail for a human: what came of it, or what went wrong.
	Detail string `json:"detail"`
}

// Pods counts the pods of the story.
type Pods struct {
	// Wanted by the Deployments.
	Wanted int `json:"wanted"`
	// Running at the end of the scale-up.
	Running int `json:"running"`
	// PreBound by the launcher, ahead of the scheduling queue.
	PreBound int `json:"preBound"`
	// Lost: wanted and not running again after the interruption, or failed on their node.
	Lost int `json:"lost"`
}

// Node is one node of the story.
type Node struct {
	// Name of the Node.
	Name string `json:"name"`
	// InstanceType that EC2 gave, such as m7g.large.
	InstanceType string `json:"instanceType"`
	// Zone such as us-east-1a.
	Zone string `json:"zone"`
	// CapacityType is spot or on-demand.
	CapacityType string `json:"capacityType"`
	// Price in USD per hour.
	Price float64 `json:"price"`
	// Pods on it, without those of DaemonSets.
	Pods int `json:"pods"`
}

// Instances counts the instances that slipway launched.
type Instances struct {
	// Launched and, of these, Terminated.
	Launched   int `json:"launched"`
	Terminated int `json:"terminated"`
	// Leaked are those that still run at the end although no NodeClaim owns them.
	Leaked int `json:"leaked"`
}

// finish computes what follows from the steps.
func (r *Report) finish(steps int) {
	r.OK = len(r.Steps) == steps && !slices.ContainsFunc(r.Steps, func(s Step) bool { return !s.OK })
}
