package simulate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// named is how many workloads a line names.
const named = 4

// table prints the bill first, then the moves, then the nodes that stay and why.
func (s *Saving) table(w io.Writer) error {
	r := s.Result()
	if r.Nodes == 0 {
		fmt.Fprintln(w, "No node belongs to a NodePool: nothing to consolidate.")
		return nil
	}
	if err := r.bill(w); err != nil {
		return err
	}
	if len(r.Moves) > 0 {
		fmt.Fprintln(w, "A step is what the NodePools' budgets let go at once; the new nodes of a move are ready before its pods are evicted.")
		fmt.Fprintln(w)
		if err := r.moves(w); err != nil {
			return err
		}
	}
	r.stay(w)
	return nil
}

// bill prints what the nodes cost now and could cost, what the moves take, and what the figures leave out.
func (r *SavingResult) bill(w io.Writer) error {
	saving := r.CostPerHour - r.CostPerHourThen
	fmt.Fprintf(w, "Now   %s, %s\n", catalog.CountText(r.Nodes, "node"), usd(r.CostPerHour, r.Unpriced, r.Nodes))
	switch {
	case len(r.Moves) == 0 && r.Unpriced == r.Nodes:
		fmt.Fprintln(w, "What could be gained is not known: no node has a known price.")
	case len(r.Moves) == 0:
		fmt.Fprintln(w, "Nothing to gain: no move pays.")
	default:
		fmt.Fprintf(w, "Then  %s", catalog.CountText(r.NodesThen, "node"))
		if r.NodesThen > 0 {
			fmt.Fprintf(w, ", %s", usd(r.CostPerHourThen, r.Unpriced-r.UnpricedRemoved(), r.NodesThen))
		}
		if saving > 0 {
			fmt.Fprintf(w, ": saves %.4f (%.0f%%), %.0f USD per month of %d hours", saving, 100*saving/r.CostPerHour, saving*catalog.HoursPerMonth, catalog.HoursPerMonth)
		}
		if n := r.UnpricedRemoved(); n > 0 {
			joint := ", and"
			if saving <= 0 {
				joint = ": saves"
			}
			fmt.Fprintf(w, "%s what %s without a known price cost", joint, catalog.CountText(n, "node"))
		}
		fmt.Fprintln(w)
		fmt.Fprintf(w, "By    %s in %s with %s%s\n", catalog.CountText(len(r.Moves), "move"), catalog.CountText(r.Steps, "step"), catalog.CountText(r.Evictions, "eviction"), r.of())
		if r.Evictions > r.EvictedPods {
			fmt.Fprintf(w, "      of %s, %d of which move more than once\n", catalog.CountText(r.EvictedPods, "pod"), r.again())
		}
		if r.Unfinished {
			fmt.Fprintln(w, "More  "+r.Further())
		}
		if r.CostPerHourAnew > 0 {
			fmt.Fprintf(w, "New   %.4f USD per hour, if every pod that may move were planned at once\n", r.CostPerHourAnew)
		}
	}
	for _, what := range r.NotCounted() {
		fmt.Fprintln(w, "Not counted:", what)
	}
	fmt.Fprintln(w)
	if len(r.NodePools) < 2 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NODEPOOL\tNODES\tTHEN\tUSD/H\tTHEN")
	for _, p := range r.NodePools {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%s\n", p.NodePool, p.Nodes, p.NodesThen, known(p.CostPerHour, p.Nodes), known(p.CostPerHourThen, p.NodesThen))
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}

// Further says that more moves would follow, where the result is unfinished.
func (r *SavingResult) Further() string {
	return fmt.Sprintf("moves would follow, a simulation ends after %s", catalog.CountText(r.Steps, "step"))
}

// NotCounted lists what the bills leave out.
func (r *SavingResult) NotCounted() []string {
	var out []string
	if r.Unpriced > 0 {
		out = append(out, catalog.CountText(r.Unpriced, "node")+" without a known price (--aws asks EC2 for spot prices, --prices reads them)")
	}
	if r.Outside > 0 {
		out = append(out, catalog.CountText(r.Outside, "node")+" of no NodePool")
	}
	if r.Pending > 0 {
		out = append(out, fits(r.Pending)+" no node there is (see slipway simulate for what would be launched)")
	}
	return out
}

// usd returns a bill of which some nodes have no known price.
func usd(perHour float64, unpriced, nodes int) string {
	switch {
	case unpriced == 0:
		return fmt.Sprintf("%.4f USD per hour", perHour)
	case unpriced >= nodes:
		return "at a price that is not known"
	}
	return fmt.Sprintf("%.4f USD per hour for %d of them", perHour, nodes-unpriced)
}

// known returns a price; a question mark for nodes of which none has a known one.
func known(perHour float64, nodes int) string {
	if perHour == 0 && nodes > 0 {
		return "?"
	}
	return fmt.Sprintf("%.4f", perHour)
}

// UnpricedRemoved returns how many nodes without a known price are removed.
func (r *SavingResult) UnpricedRemoved() int {
	n := 0
	for _, m := range r.Moves {
		for _, node := range m.Nodes {
			if node.Price == 0 {
				n++
			}
		}
	}
	return n
}

// again returns how many pods move more than once.
func (r *SavingResult) again() int {
	times, n := map[string]int{}, 0
	for i := range r.Moves {
		for pod := range r.Moves[i].Evictions {
			if times[pod]++; times[pod] == 2 {
				n++
			}
		}
	}
	return n
}

// of names the workloads of all pods that are evicted.
func (r *SavingResult) of() string {
	all := map[string]int{}
	for i := range r.Moves {
		for name, n := range r.Moves[i].Workloads {
			all[name] += n
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + WorkloadNames(all)
}

// WorkloadNames returns the names of the workloads, those with most pods first.
func WorkloadNames(pods map[string]int) string {
	names := slices.SortedFunc(maps.Keys(pods), func(a, b string) int { return cmp.Or(cmp.Compare(pods[b], pods[a]), cmp.Compare(a, b)) })
	var parts []string
	rest := 0
	for i, name := range names {
		if i < named || len(names) == named+1 {
			parts = append(parts, fmt.Sprintf("%d of %s", pods[name], name))
		} else {
			rest += pods[name]
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", rest, catalog.CountText(len(names)-named, "other")))
	}
	return strings.Join(parts, ", ")
}

func fits(pending int) string {
	text := catalog.CountText(pending, "pending pod") + " that fit"
	if pending == 1 {
		text += "s"
	}
	return text
}

// moves prints the moves of each step. It sums up all but the first steps.
func (r *SavingResult) moves(w io.Writer) error {
	printed := 0
	for step := 1; step <= r.Steps; step++ {
		var of []MoveResult
		saves, removed, launched, evicts := 0.0, 0, 0, 0
		for _, m := range r.Moves {
			if m.Step == step {
				of = append(of, m)
				saves, removed, launched, evicts = saves+m.SavingPerHour, removed+len(m.Nodes), launched+len(m.Replacements), evicts+len(m.Evictions)
			}
		}
		figure := fmt.Sprintf("%.4f USD per hour", saves)
		if saves == 0 {
			figure = "a price that is not known"
		}
		fmt.Fprintf(w, "Step %d: %s, -%d +%s, %s, saves %s\n", step, catalog.CountText(len(of), "move"), removed, catalog.CountText(launched, "node"),
			catalog.CountText(evicts, "eviction"), figure)
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

// Summary returns what the move saves and what it takes, as a part of a sentence.
func (m *MoveResult) Summary() string {
	what := "nothing is evicted"
	if len(m.Evictions) > 0 {
		what = fmt.Sprintf("evicts %s; paid back after %s", WorkloadNames(m.Workloads), minutes(m.PaybackSeconds))
	}
	if m.SavingPerHour == 0 {
		return "saves a price that is not known, " + what
	}
	return fmt.Sprintf("saves %.4f USD per hour, %s", m.SavingPerHour, what)
}

func (m *MoveResult) table(w io.Writer) error {
	fmt.Fprintf(w, "  %s\n", m.Summary())
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	line := func(sign string, n OldNode, what string) {
		price := "?"
		if n.Price > 0 {
			price = fmt.Sprintf("%.4f", n.Price)
		}
		fmt.Fprintf(tw, "    %s %s\t%s\t%s\t%s\t%s\t%s\t%s\n", sign, n.Name, n.InstanceType, n.CapacityType, n.Zone, n.NodePool, price, what)
	}
	to := map[string]int{}
	for _, node := range m.Evictions {
		to[node]++
	}
	for _, n := range m.Nodes {
		line("-", n, "removed")
	}
	for _, n := range m.Replacements {
		line("+", n, "launched for "+catalog.CountText(to[n.Name], "pod"))
		delete(to, n.Name)
	}
	for _, node := range slices.Sorted(maps.Keys(to)) {
		fmt.Fprintf(tw, "    = %s\t\t\t\t\t\thas room for %s\n", node, catalog.CountText(to[node], "pod"))
	}
	return tw.Flush()
}

// minutes returns a time rounded to minutes, such as "2 h".
func minutes(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Minute)
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < 2*time.Hour:
		return catalog.CountText(int(d.Minutes()), "minute")
	}
	return strings.TrimSuffix(d.String(), "0s")
}

// stay prints why nodes stay, with those of one reason together.
func (r *SavingResult) stay(w io.Writer) {
	if len(r.Kept) == 0 {
		return
	}
	fmt.Fprintln(w, "These stay:")
	for _, c := range KeptClasses(r.Kept) {
		list, more := c.Nodes, ""
		if len(list) > 3 {
			list, more = list[:3], fmt.Sprintf(" and %d more", len(list)-3)
		}
		fmt.Fprintf(w, "  %s%s: %s\n", strings.Join(list, ", "), more, c.Reason)
	}
}
