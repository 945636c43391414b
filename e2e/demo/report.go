package demo

import (
	"slices"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// Report is what `slipway-sandbox demo --output json` prints.
type Report struct {
	// OK is true where every step succeeded.
	OK bool `json:"ok"`
	// Steps are the steps that ran, in order.
	Steps []Step `json:"steps"`
	// Pods counts the pods of the Deployments over the whole demo.
	Pods Pods `json:"pods"`
	// Nodes are those that existed when all pods ran.
	Nodes []Node `json:"nodes"`
	// CostPerHour is the cost of these nodes in USD.
	CostPerHour float64 `json:"costPerHour"`
	// LowerBoundPerHour is a lower bound of the cost of any nodes for these pods, in USD.
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	// FirstFitPerHour is what first-fit decreasing would pay for these pods, in USD.
	FirstFitPerHour float64 `json:"firstFitPerHour"`
	// Instances counts the instances on EC2 over the whole demo.
	Instances Instances `json:"instances"`
	// Seconds are the durations of the stages of the scale-up.
	Seconds observe.Timings `json:"seconds"`
}

// Step is the result of one step.
type Step struct {
	// Name is the step's.
	Name string `json:"name"`
	// OK is true where the step succeeded.
	OK bool `json:"ok"`
	// Seconds is the step's duration.
	Seconds float64 `json:"seconds"`
	// Detail is the result, or what failed.
	Detail string `json:"detail"`
}

// Pods counts the pods of the demo.
type Pods struct {
	// Wanted is the sum of the Deployments' replicas.
	Wanted int `json:"wanted"`
	// Running is how many ran at the end of the scale-up.
	Running int `json:"running"`
	// PreBound is how many the launcher bound, ahead of the scheduling queue.
	PreBound int `json:"preBound"`
	// Lost is how many did not run again after the interruption, or failed on their node.
	Lost int `json:"lost"`
}

// Node is one node of the demo.
type Node struct {
	// Name is the Node's.
	Name string `json:"name"`
	// InstanceType is such as m7g.large.
	InstanceType string `json:"instanceType"`
	// Zone is such as us-east-1a.
	Zone string `json:"zone"`
	// CapacityType is spot or on-demand.
	CapacityType string `json:"capacityType"`
	// Price is in USD per hour.
	Price float64 `json:"price"`
	// Pods is the number of pods on the node, without those of DaemonSets.
	Pods int `json:"pods"`
}

// Instances counts the instances that slipway launched.
type Instances struct {
	// Launched is how many were launched, and Terminated how many of them terminated.
	Launched   int `json:"launched"`
	Terminated int `json:"terminated"`
	// Leaked is how many still run at the end though no NodeClaim owns them.
	Leaked int `json:"leaked"`
}

// finish computes what follows from the steps.
func (r *Report) finish(steps int) {
	r.OK = len(r.Steps) == steps && !slices.ContainsFunc(r.Steps, func(s Step) bool { return !s.OK })
}
