package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// SavingResult is the answer as `slipway simulate --consolidate -o json` prints it. Its lists are never null.
type SavingResult struct {
	// CostPerHour of the nodes of all NodePools now, in USD.
	CostPerHour float64 `json:"costPerHour"`
	// CostPerHourThen is the same after all moves.
	CostPerHourThen float64 `json:"costPerHourThen"`
	// CostPerHourAnew is what they would cost if all pods that may move were planned at once.
	CostPerHourAnew float64 `json:"costPerHourAnew"`
	// Nodes that NodePools have now, and NodesThen after all moves.
	Nodes int `json:"nodes"`
	// NodesThen as above.
	NodesThen int `json:"nodesThen"`
	// Evictions that all moves need.
	Evictions int `json:"evictions"`
	// Steps that the moves take, within the NodePools' budgets.
	Steps int `json:"steps"`
	// Moves in their order; those of one step can be made at once.
	Moves []MoveResult `json:"moves"`
	// Kept are the nodes that stay.
	Kept []KeptResult `json:"kept"`
	// Pending is how many pods fit no node there is; nothing is launched for them here.
	Pending int `json:"pending"`
	// PlanSeconds is what deciding took, after loading; Questions how often the planner was asked.
	PlanSeconds float64 `json:"planSeconds"`
	// Questions as above.
	Questions int `json:"questions"`
	// PeakRSSMiB is the most memory that the process had, loading included.
	PeakRSSMiB float64 `json:"peakRSSMiB"`
	// Problems of objects that were left out or read otherwise than they are written.
	Problems []input.Problem `json:"problems"`
}

// MoveResult is a set of nodes that go together.
type MoveResult struct {
	// Step that the move belongs to, from 1.
	Step int `json:"step"`
	// Nodes that go.
	Nodes []OldNode `json:"nodes"`
	// Replacements to launch before; none where there is room elsewhere.
	Replacements []OldNode `json:"replacements"`
	// Evictions are the pods by name, with the node or replacement that they move to.
	Evictions map[string]string `json:"evictions"`
	// SavingPerHour in USD.
	SavingPerHour float64 `json:"savingPerHour"`
	// CostOnce in USD is what evictions and the time in which both are paid count for.
	CostOnce float64 `json:"costOnce"`
	// PaybackSeconds is when the saving has earned CostOnce.
	PaybackSeconds float64 `json:"paybackSeconds"`
}

// OldNode is a node that goes, or one that comes for it.
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
	// Price in USD per hour.
	Price float64 `json:"price"`
}

// KeptResult is a node that stays.
type KeptResult struct {
	// Node is its name.
	Node string `json:"node"`
	// Reason for a human.
	Reason string `json:"reason"`
}

func oldNode(name string, o consolidate.Offer) OldNode {
	return OldNode{Name: name, NodePool: o.NodePool, InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}
}

// Result puts the decision into the words of the user.
func (s *Saving) Result() SavingResult {
	out := SavingResult{
		Nodes: len(s.Before), NodesThen: len(s.After), CostPerHour: bill(s.Before), CostPerHourThen: bill(s.After), CostPerHourAnew: s.AnewPerHour,
		Steps: s.Steps, Moves: []MoveResult{}, Kept: []KeptResult{}, Pending: s.Pending,
		PlanSeconds: s.Took.Seconds(), Questions: s.Questions, PeakRSSMiB: peakRSSMiB(), Problems: []input.Problem{},
	}
	out.Problems = append(out.Problems, s.Problems...)
	came := map[string]bool{}
	for i := range s.Moves {
		m := &s.Moves[i]
		r := MoveResult{
			Step: m.Step, Nodes: []OldNode{}, Replacements: []OldNode{}, Evictions: m.Targets, SavingPerHour: m.Saving, CostOnce: m.Cost,
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
	}
	for _, k := range s.Kept {
		if came[k.Node] {
			continue
		}
		out.Kept = append(out.Kept, KeptResult{Node: k.Node, Reason: k.Reason})
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

func (s *Saving) table(w io.Writer) error {
	r := s.Result()
	if r.Pending > 0 {
		fmt.Fprintf(w, "%s no node there is: see `slipway simulate` for what would be launched.\n\n", fits(r.Pending))
	}
	switch {
	case r.Nodes == 0:
		fmt.Fprintln(w, "No node belongs to a NodePool: nothing to consolidate.")
		return nil
	case len(r.Moves) > 0:
		if err := r.moves(w); err != nil {
			return err
		}
	}
	r.stay(w)
	fmt.Fprintf(w, "Now   %s, %.4f USD per hour\n", count(r.Nodes, "node"), r.CostPerHour)
	if len(r.Moves) == 0 {
		fmt.Fprintln(w, "Nothing to gain: no move pays.")
		return nil
	}
	saving := r.CostPerHour - r.CostPerHourThen
	fmt.Fprintf(w, "Then  %s, %.4f USD per hour, after %s in %s with %s\n", count(r.NodesThen, "node"), r.CostPerHourThen,
		count(len(r.Moves), "move"), count(r.Steps, "step"), count(r.Evictions, "eviction"))
	fmt.Fprintf(w, "Anew  %.4f USD per hour, if every pod that may move were planned anew\n", r.CostPerHourAnew)
	fmt.Fprintf(w, "Saves %.4f USD per hour (%.0f %%), %.0f USD per month of %d hours\n", saving, 100*saving/r.CostPerHour, saving*hoursPerMonth, hoursPerMonth)
	return nil
}

func fits(pending int) string {
	if pending == 1 {
		return "1 pending pod fits"
	}
	return fmt.Sprintf("%d pending pods fit", pending)
}

// moves prints the moves of each step; beyond the first ones, steps are summed up.
func (r *SavingResult) moves(w io.Writer) error {
	printed := 0
	for step := 1; step <= r.Steps; step++ {
		var of []MoveResult
		saves, goes, comes, evicts := 0.0, 0, 0, 0
		for _, m := range r.Moves {
			if m.Step == step {
				of = append(of, m)
				saves, goes, comes, evicts = saves+m.SavingPerHour, goes+len(m.Nodes), comes+len(m.Replacements), evicts+len(m.Evictions)
			}
		}
		fmt.Fprintf(w, "Step %d: %s, -%d +%s, %s, saves %.4f USD per hour\n", step, count(len(of), "move"), goes, count(comes, "node"),
			count(evicts, "eviction"), saves)
		for i := range of {
			if printed >= listed {
				fmt.Fprintf(w, "  and %d more (-o json has all)\n", len(of)-i)
				break
			}
			printed += len(of[i].Nodes) + len(of[i].Replacements)
			if err := of[i].table(w); err != nil {
				return err
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}

func (m *MoveResult) table(w io.Writer) error {
	what := "it is empty"
	if len(m.Evictions) > 0 {
		what = fmt.Sprintf("%s, paid back after %s", count(len(m.Evictions), "eviction"), time.Duration(m.PaybackSeconds*float64(time.Second)).Round(time.Minute))
	}
	fmt.Fprintf(w, "  saves %.4f USD per hour: %s\n", m.SavingPerHour, what)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	line := func(sign string, n OldNode) {
		fmt.Fprintf(tw, "    %s %s\t%s\t%s\t%s\t%s\t%.4f\n", sign, n.Name, n.InstanceType, n.CapacityType, n.Zone, n.NodePool, n.Price)
	}
	for _, n := range m.Nodes {
		line("-", n)
	}
	for _, n := range m.Replacements {
		line("+", n)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	came := map[string]bool{}
	for _, n := range m.Replacements {
		came[n.Name] = true
	}
	elsewhere := map[string]int{}
	for _, node := range m.Evictions {
		if !came[node] {
			elsewhere[node]++
		}
	}
	for _, node := range slices.Sorted(maps.Keys(elsewhere)) {
		fmt.Fprintf(w, "      %s to %s, which has room\n", count(elsewhere[node], "pod"), node)
	}
	return nil
}

// stay prints why nodes stay, those of one reason together.
func (r *SavingResult) stay(w io.Writer) {
	if len(r.Kept) == 0 {
		return
	}
	names := map[string][]string{}
	var reasons []string
	for _, k := range r.Kept {
		if names[k.Reason] == nil {
			reasons = append(reasons, k.Reason)
		}
		names[k.Reason] = append(names[k.Reason], k.Node)
	}
	fmt.Fprintln(w, "These stay:")
	for _, reason := range reasons {
		list := names[reason]
		more := ""
		if len(list) > 3 {
			list, more = list[:3], fmt.Sprintf(" and %d more", len(list)-3)
		}
		fmt.Fprintf(w, "  %s%s: %s\n", strings.Join(list, ", "), more, reason)
	}
	fmt.Fprintln(w)
}

// Tell prints what a human has to know of the input besides the result.
func (s *Saving) Tell(w io.Writer, objects *input.Objects) {
	Tell(w, objects, &Outcome{Notes: s.Notes, Problems: s.Problems})
}
