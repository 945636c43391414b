package simulate

import (
	"encoding/json"
	"io"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// SavingResult is the outcome as `slipway simulate --consolidate -o json` prints it. Its lists are never null.
type SavingResult struct {
	// CostPerHour of the nodes of all NodePools now, in USD.
	CostPerHour float64 `json:"costPerHour"`
	// CostPerHourThen is the same after all moves.
	CostPerHourThen float64 `json:"costPerHourThen"`
	// CostPerHourAnew is what they would cost if all pods that may move were planned at once.
	CostPerHourAnew float64 `json:"costPerHourAnew"`
	// Nodes is the number of nodes that NodePools have now, NodesThen the number after all moves.
	Nodes int `json:"nodes"`
	// NodesThen is described at Nodes.
	NodesThen int `json:"nodesThen"`
	// Evictions is the number of evictions in all moves, EvictedPods the number of evicted pods: one may have to move more than
	// once.
	Evictions int `json:"evictions"`
	// EvictedPods is described at Evictions.
	EvictedPods int `json:"evictedPods"`
	// NodePools with what their nodes cost, by name.
	NodePools []PoolResult `json:"nodePools"`
	// Unpriced is the number of nodes of NodePools without a known price. None of the costs includes them, and only empty ones
	// are removed.
	Unpriced int `json:"unpriced"`
	// Outside is the number of nodes that belong to no NodePool. They are not considered, and none of the figures includes them.
	Outside int `json:"outside"`
	// Steps is the number of steps that the moves take, within the NodePools' budgets.
	Steps int `json:"steps"`
	// Unfinished means that more moves would follow after these steps: a simulation ends after 100. The costs then are those after the last one.
	Unfinished bool `json:"unfinished"`
	// Moves in their order; those of one step can be made at once.
	Moves []MoveResult `json:"moves"`
	// Kept are the nodes that stay.
	Kept []KeptResult `json:"kept"`
	// Pending is the number of pods that fit no existing node. Nothing is launched for them here.
	Pending int `json:"pending"`
	// PlanSeconds is the duration of the decisions, after loading. Questions is how often the planner was asked.
	PlanSeconds float64 `json:"planSeconds"`
	// Questions is described at PlanSeconds.
	Questions int `json:"questions"`
	// PeakRSSMiB is the largest resident memory of the process, loading included.
	PeakRSSMiB float64 `json:"peakRSSMiB"`
	// Problems are those of objects that were left out, or read differently from what they say.
	Problems []input.Problem `json:"problems"`
}

// MoveResult is a set of nodes that are removed together.
type MoveResult struct {
	// Step that the move belongs to, from 1.
	Step int `json:"step"`
	// Nodes are those to remove.
	Nodes []OldNode `json:"nodes"`
	// Replacements are launched before; none if existing nodes have room.
	Replacements []OldNode `json:"replacements"`
	// Evictions are the pods by name, with the node or replacement that they move to.
	Evictions map[string]string `json:"evictions"`
	// Workloads are the controllers of the evicted pods with the number of pods, such as "Deployment shop/web".
	Workloads map[string]int `json:"workloads"`
	// SavingPerHour is in USD; 0 if the price of an empty node is not known.
	SavingPerHour float64 `json:"savingPerHour"`
	// CostOnce is the cost of evictions, and of the time in which old and new nodes are paid, in USD.
	CostOnce float64 `json:"costOnce"`
	// PaybackSeconds is the time in which the saving has earned CostOnce.
	PaybackSeconds float64 `json:"paybackSeconds"`
}

// PoolResult is what a NodePool's nodes cost.
type PoolResult struct {
	// NodePool is its name.
	NodePool string `json:"nodePool"`
	// Nodes is the number now, NodesThen the number after all moves.
	Nodes int `json:"nodes"`
	// NodesThen is described at Nodes.
	NodesThen int `json:"nodesThen"`
	// CostPerHour now, in USD, and CostPerHourThen after all moves.
	CostPerHour float64 `json:"costPerHour"`
	// CostPerHourThen is described at CostPerHour.
	CostPerHourThen float64 `json:"costPerHourThen"`
}

// OldNode is a node to remove, or a replacement.
type OldNode struct {
	// Name of the node.
	Name string `json:"name"`
	// NodePool it belongs to.
	NodePool string `json:"nodePool"`
	// InstanceType of the node.
	InstanceType string `json:"instanceType"`
	// Zone of the node.
	Zone string `json:"zone"`
	// CapacityType is spot, on-demand or reserved.
	CapacityType string `json:"capacityType"`
	// Price in USD per hour; 0 where it is not known.
	Price float64 `json:"price"`
}

// KeptResult is a node that stays.
type KeptResult struct {
	// Node is its name.
	Node string `json:"node"`
	// Reason is a sentence for users.
	Reason string `json:"reason"`
}

func oldNode(name string, o consolidate.Offer) OldNode {
	return OldNode{Name: name, NodePool: o.NodePool, InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}
}

// Result converts the outcome for output.
func (s *Saving) Result() SavingResult {
	out := SavingResult{
		Nodes: len(s.Before), NodesThen: len(s.After), CostPerHour: bill(s.Before), CostPerHourThen: bill(s.After), CostPerHourAnew: s.AnewPerHour,
		Steps: s.Steps, Unfinished: s.Unfinished, Moves: []MoveResult{}, Kept: []KeptResult{}, Pending: s.Pending,
		NodePools: s.pools(), Outside: s.Outside,
		PlanSeconds: s.Took.Seconds(), Questions: s.Questions, PeakRSSMiB: peakRSSMiB(), Problems: []input.Problem{},
	}
	out.Problems = append(out.Problems, s.Problems...)
	for i := range s.Before {
		if s.Before[i].Price == 0 {
			out.Unpriced++
		}
	}
	came, evicted := map[string]bool{}, map[string]bool{}
	for i := range s.Moves {
		m := &s.Moves[i]
		r := MoveResult{
			Step: m.Step, Nodes: []OldNode{}, Replacements: []OldNode{}, Evictions: m.Targets, Workloads: s.workloads(m.Targets), SavingPerHour: m.Saving, CostOnce: m.Cost,
			PaybackSeconds: m.Payback().Seconds(),
		}
		for j := range m.Nodes {
			r.Nodes = append(r.Nodes, oldNode(m.Nodes[j].Name, m.Nodes[j].Offer))
		}
		for _, n := range m.Replacements {
			came[n.Name] = true
			r.Replacements = append(r.Replacements, oldNode(n.Name, n.Offer))
		}
		out.Moves = append(out.Moves, r)
		out.Evictions += len(m.Targets)
		for pod := range m.Targets {
			evicted[pod] = true
		}
	}
	out.EvictedPods = len(evicted)
	for _, k := range s.Kept {
		if came[k.Node] {
			continue
		}
		out.Kept = append(out.Kept, KeptResult{Node: k.Node, Reason: k.Reason})
	}
	return out
}

// pools returns the bills of the NodePools.
func (s *Saving) pools() []PoolResult {
	of := map[string]*PoolResult{}
	pool := func(name string) *PoolResult {
		if of[name] == nil {
			of[name] = &PoolResult{NodePool: name}
		}
		return of[name]
	}
	for i := range s.Before {
		p := pool(s.Before[i].NodePool)
		p.Nodes, p.CostPerHour = p.Nodes+1, p.CostPerHour+s.Before[i].Price
	}
	for i := range s.After {
		p := pool(s.After[i].NodePool)
		p.NodesThen, p.CostPerHourThen = p.NodesThen+1, p.CostPerHourThen+s.After[i].Price
	}
	out := make([]PoolResult, 0, len(of))
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, *of[name])
	}
	return out
}

// workloads returns the number of evicted pods by controller.
func (s *Saving) workloads(evictions map[string]string) map[string]int {
	out := map[string]int{}
	for pod := range evictions {
		out[s.Owners[pod]]++
	}
	return out
}

func bill(nodes []consolidate.Node) float64 {
	sum := 0.0
	for i := range nodes {
		sum += nodes[i].Price
	}
	return sum
}

// Write prints the saving as a table, json or yaml.
func (s *Saving) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s.Result())
	case "yaml":
		text, err := yaml.Marshal(s.Result())
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	return s.table(w)
}

// WriteNotes prints what users have to know about the input beside the result.
func (s *Saving) WriteNotes(w io.Writer, objects *input.Objects) {
	WriteNotes(w, objects, &Outcome{Notes: s.Notes, Problems: s.Problems})
}

// KeptClass is the nodes that stay for one reason.
type KeptClass struct {
	// Nodes by name.
	Nodes []string
	// Reason is a sentence for users.
	Reason string
}

// KeptClasses puts the nodes of one reason together, in the order of the list.
func KeptClasses(list []KeptResult) []KeptClass {
	at := map[string]int{}
	var out []KeptClass
	for _, k := range list {
		i, ok := at[k.Reason]
		if !ok {
			i = len(out)
			at[k.Reason] = i
			out = append(out, KeptClass{Reason: k.Reason})
		}
		out[i].Nodes = append(out[i].Nodes, k.Node)
	}
	return out
}
