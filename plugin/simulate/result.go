package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// Result is the outcome as `slipway simulate -o json` prints it. Its lists are never null.
type Result struct {
	// Nodes are those to launch.
	Nodes []Node `json:"nodes"`
	// Existing nodes that take pending pods.
	Existing []Existing `json:"existing"`
	// Unschedulable pods with the reasons.
	Unschedulable []Unschedulable `json:"unschedulable"`
	// CostPerHour of Nodes in USD.
	CostPerHour float64 `json:"costPerHour"`
	// LowerBoundPerHour in USD that no set of nodes for the placed pods can beat.
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	// BoundSeconds is the time to compute LowerBoundPerHour, which is no part of planning.
	BoundSeconds float64 `json:"boundSeconds"`
	// FirstFitPerHour in USD is what first-fit decreasing would pay for the same pods.
	FirstFitPerHour float64 `json:"firstFitPerHour"`
	// PlanSeconds is the time of planning and verifying, after loading.
	PlanSeconds float64 `json:"planSeconds"`
	// VerifySeconds is the part of PlanSeconds for the scheduler's filters.
	VerifySeconds float64 `json:"verifySeconds"`
	// Rounds is how often the batch was planned until the filters agreed.
	Rounds int `json:"rounds"`
	// PeakRSSMiB is the largest resident memory of the process, loading included.
	PeakRSSMiB float64 `json:"peakRSSMiB"`
	// Commitments are the Savings Plans and Reserved Instances, and what is left of them with the new nodes.
	Commitments []catalog.CommitmentUse `json:"commitments,omitempty"`
	// Problems are those of objects that were left out, or read differently from what they say.
	Problems []input.Problem `json:"problems"`
}

// Node is a node to launch.
type Node struct {
	// Name of the node.
	Name string `json:"name"`
	// NodePool it belongs to.
	NodePool string `json:"nodePool"`
	// InstanceType that is launched if EC2 has it.
	InstanceType string `json:"instanceType"`
	// Zone of the node.
	Zone string `json:"zone"`
	// CapacityType is spot or on-demand.
	CapacityType string `json:"capacityType"`
	// Price in USD per hour, the sum of Cost.
	Price float64 `json:"price"`
	// Cost is the price by part.
	Cost catalog.Cost `json:"cost"`
	// Pods as namespace/name.
	Pods []string `json:"pods"`
	// CoveredBy is the name of the commitments that pay for the instance; empty for none.
	CoveredBy string `json:"coveredBy,omitempty"`
	// Alternatives is the number of instance types that EC2 may choose from.
	Alternatives int `json:"alternatives"`
}

// Existing is a node that exists.
type Existing struct {
	// Name of the node.
	Name string `json:"name"`
	// Pods that are placed on it now, as namespace/name.
	Pods []string `json:"pods"`
}

// Unschedulable is a pod for which nothing can be launched.
type Unschedulable struct {
	// Pod as namespace/name.
	Pod string `json:"pod"`
	// Reasons by NodePool.
	Reasons []Reason `json:"reasons"`
}

// Reason is why a NodePool does not run a pod.
type Reason struct {
	// NodePool is its name; empty for a reason that holds for all.
	NodePool string `json:"nodePool"`
	// Code is the reason in one word.
	Code string `json:"code"`
	// Reason is a sentence with the figures that decided.
	Reason string `json:"reason"`
}

// Result converts the outcome for output.
func (o *Outcome) Result(ctx context.Context) Result {
	began := time.Now()
	bound := o.LowerBound(ctx)
	out := Result{
		Nodes: []Node{}, Existing: []Existing{}, Unschedulable: []Unschedulable{}, Problems: []input.Problem{},
		CostPerHour: catalog.Micro(o.Plan.CostPerHour), LowerBoundPerHour: bound, BoundSeconds: time.Since(began).Seconds(),
		FirstFitPerHour: o.Plan.FirstFitPerHour,
		PlanSeconds:     (o.PlanTime + o.VerifyTime).Seconds(), VerifySeconds: o.VerifyTime.Seconds(), Rounds: o.Rounds,
		PeakRSSMiB: peakRSSMiB(),
	}
	out.Commitments = plan.CommitmentUses(o.Input, &o.Plan)
	out.Problems = append(out.Problems, o.Problems...)
	for _, c := range o.Plan.Claims {
		out.Nodes = append(out.Nodes, Node{
			Name: c.Name, NodePool: c.NodePool, InstanceType: c.Expected.InstanceType, Zone: c.Expected.Zone,
			CapacityType: c.Expected.CapacityType, Price: catalog.Micro(c.Expected.Price), Cost: c.Cost.Rounded(), Pods: podsOf(c.Members),
			Alternatives: len(c.Alternatives), CoveredBy: c.Covered,
		})
	}
	for _, p := range o.Plan.Placements {
		out.Existing = append(out.Existing, Existing{Name: p.Node, Pods: podsOf(p.Members)})
	}
	for _, u := range o.Plan.Unplaced {
		reasons := reasonsOf(u.Reasons)
		for _, ref := range u.Pods {
			out.Unschedulable = append(out.Unschedulable, Unschedulable{Pod: ref.Namespace + "/" + ref.Name, Reasons: reasons})
		}
	}
	for _, h := range o.Held {
		out.Unschedulable = append(out.Unschedulable, Unschedulable{Pod: h.Pod, Reasons: []Reason{{Code: h.Code, Reason: h.Reason}}})
	}
	return out
}

func podsOf(members []plan.Member) []string {
	out := []string{}
	for _, m := range members {
		for _, ref := range m.Pods {
			out = append(out, ref.Namespace+"/"+ref.Name)
		}
	}
	slices.Sort(out)
	return out
}

func reasonsOf(in []plan.Reason) []Reason {
	out := make([]Reason, 0, len(in))
	for _, r := range in {
		out = append(out, Reason{NodePool: r.NodePool, Code: r.Code, Reason: r.Message})
	}
	return out
}

// ReasonClass is the pods that cannot be placed for the same reasons.
type ReasonClass struct {
	// Pods as namespace/name.
	Pods []string
	// Reasons by NodePool.
	Reasons []Reason
}

// ReasonClasses puts the pods of the same reasons together, in the order of the list.
func ReasonClasses(list []Unschedulable) []ReasonClass {
	at := map[string]int{}
	var out []ReasonClass
	for _, u := range list {
		key := fmt.Sprint(u.Reasons)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, ReasonClass{Reasons: u.Reasons})
		}
		out[i].Pods = append(out[i].Pods, u.Pod)
	}
	return out
}
