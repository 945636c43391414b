package day

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// hoursPerRow is how many hours are one row of the table of WriteWhere.
const hoursPerRow = 3

// Hour is what an hour's nodes came to, in USD.
type Hour struct {
	// Paid for all nodes, commitments aside.
	Paid float64
	// Idle is what was paid for nodes that boot or drain.
	Idle float64
	// Free is what was paid for room without pods on the other nodes: a node's price times what is left of the larger of its shares of cpu and memory.
	Free float64
}

// note adds a minute to its hour.
func note(c *cluster) {
	on, h := podsOn(c), &c.bill.Hours[(c.from+c.now)/60%24]
	for name, n := range c.nodes {
		usd := c.price(n.offer) / 60
		h.Paid += usd
		if n.gone != 0 || n.ready > c.now {
			h.Idle += usd
			continue
		}
		h.Free += usd * (1 - consolidate.Used(n.object, on[name]))
	}
}

// WriteWhere prints when a bill is over the bound, and by what: nodes that boot or drain, free room, and the rest, which is pods on nodes that do not
// suit them, such as many small ones, or nodes whose memory is full while their CPUs are not.
func WriteWhere(w io.Writer, lower Lower, b *Bill) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s: hours\tbound USD\tover it\tboots or drains\tfree room\tnodes that suit less\n", b.Policy)
	for from := 0; from < len(b.Hours); from += hoursPerRow {
		row(t, fmt.Sprintf("%d to %d", from, from+hoursPerRow), lower.Hours[from:from+hoursPerRow], b.Hours[from:from+hoursPerRow])
	}
	row(t, "all", lower.Hours[:], b.Hours[:])
	return t.Flush()
}

// row prints one row, if anything was paid in its hours.
func row(w io.Writer, name string, bounds []float64, hours []Hour) {
	bound, sum := 0.0, Hour{}
	for i := range hours {
		bound += bounds[i]
		sum.Paid, sum.Idle, sum.Free = sum.Paid+hours[i].Paid, sum.Idle+hours[i].Idle, sum.Free+hours[i].Free
	}
	if bound <= 0 || sum.Paid == 0 {
		return
	}
	fmt.Fprintf(w, "%s\t%.2f\t%.1f%%\t%.1f%%\t%.1f%%\t%.1f%%\n", name, bound, 100*(sum.Paid/bound-1), 100*sum.Idle/bound, 100*sum.Free/bound,
		100*((sum.Paid-sum.Idle-sum.Free)/bound-1))
}
