package view

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes the overview as the table that `slipway status` prints: a row per node, then the pods and the bill.
func (o Overview) Table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NODECLAIM\tTYPE\tZONE\tCAPACITY\tUSD/H\tPODS\tSTATE\tNODE")
	for _, n := range o.Nodes {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.NodeClaim, dash(n.InstanceType), dash(n.Zone),
			dash(n.CapacityType), dollars(n.Price), pods(n), n.State, dash(n.Node))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d nodes, %.4f USD per hour; pods: %s\n", len(o.Nodes), o.CostPerHour, o.Pods)
	return err
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

func dollars(price float64) string {
	if price == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4f", price)
}

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}
