package view

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes the overview as the table that `slipway status` prints: a row per node, then the pods and the bill of
// what EC2 has launched, and the errors that launches end in.
func (o Overview) Table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NODECLAIM\tTYPE\tZONE\tCAPACITY\tUSD/H\tPODS\tSTATE\tNODE")
	for _, n := range o.Nodes {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.NodeClaim, dash(n.InstanceType), dash(n.Zone),
			dash(n.CapacityType), price(n), pods(n), n.State, dash(n.Node))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	more := ""
	if n := len(o.Nodes) - o.Launched; n > 0 {
		more = fmt.Sprintf(", %d more not launched yet", n)
	}
	if _, err := fmt.Fprintf(w, "%d nodes, %.4f USD per hour%s; pods: %s\n", o.Launched, o.CostPerHour, more, o.Pods); err != nil {
		return err
	}
	if o.Cost.Total() > o.Cost.Instance {
		if _, err := fmt.Fprintf(w, "  of it: %s\n", o.Cost); err != nil {
			return err
		}
	}
	for _, t := range o.Troubles {
		if err := t.write(w, o.Now); err != nil {
			return err
		}
	}
	return nil
}

// String prints the counts in the order of a pod's way.
func (c PodCounts) String() string {
	return fmt.Sprintf("%d pending, %d promised, %d bound, %d running", c.Pending, c.Promised, c.Bound, c.Running)
}

func pods(n NodeRow) string {
	if n.Promised == 0 {
		return fmt.Sprint(n.Pods)
	}
	return fmt.Sprintf("%d+%d", n.Pods, n.Promised)
}

// price returns the node's price; in brackets if it costs nothing yet.
func price(n NodeRow) string {
	switch {
	case n.Price == 0:
		return "-"
	case !n.Launched:
		return fmt.Sprintf("(%.4f)", n.Price)
	}
	return fmt.Sprintf("%.4f", n.Price)
}

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
