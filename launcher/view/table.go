package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// maxPending bounds the groups of pending pods that a table lists.
const maxPending = 10

// Format is how an overview is written.
type Format string

// The formats of `slipway status`: a table that fits 80 columns, one with all columns, and JSON.
const (
	FormatTable Format = "table"
	FormatWide  Format = "wide"
	FormatJSON  Format = "json"
)

// Write writes the overview. It returns an error that names a format that is not known.
func (o Overview) Write(w io.Writer, format Format) error {
	switch format {
	case FormatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(o)
	case FormatTable, FormatWide:
		return o.table(w, format == FormatWide)
	}
	return fmt.Errorf("--output %s: %s, %s or %s is expected", format, FormatTable, FormatWide, FormatJSON)
}

// table writes a row per node, then the bill of what EC2 has launched, the pods, why some are pending, NodePools that are not Ready, and the
// errors that launches end in.
func (o Overview) table(w io.Writer, wide bool) error {
	out := &printer{w: w}
	o.nodes(out, wide)
	o.bill(out, wide)
	out.printf("Pods: %s\n", o.Pods)
	if n := len(o.Pending); n > 0 {
		out.printf("Pending:\n")
		for _, p := range o.Pending[:min(n, maxPending)] {
			out.printf("  %d of %s/%s for %s: %s\n", p.Count, p.Namespace, p.Owner, age(o.Now, p.Since), cmp.Or(p.Why, "not planned yet"))
		}
		if n > maxPending {
			out.printf("  and %d more (-o json lists all)\n", n-maxPending)
		}
	}
	if len(o.Paused) > 0 {
		out.printf("%s\n", o.PauseText())
	}
	for _, p := range o.NotReady {
		out.printf("NodePool %s is not ready: %s\n", p.NodePool, p.Message)
	}
	for _, t := range o.Troubles {
		t.write(out, o.Now)
	}
	return out.err
}

func (o Overview) nodes(out *printer, wide bool) {
	if len(o.Nodes) == 0 {
		return
	}
	tw := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	head := "NODECLAIM\tTYPE\tZONE\tCAPACITY\tUSD/H\tCPU\tMEM\tPODS\tSTATE"
	if wide {
		head += "\tAGE\tNODEPOOL\tNODE\tCOST\tWHY"
	}
	fmt.Fprintln(tw, head)
	region := o.Region()
	for _, n := range o.Nodes {
		zone, capacity := n.Zone, dash(n.CapacityType)
		if !wide {
			zone = strings.TrimPrefix(zone, region)
		} else if n.CoveredBy != "" {
			capacity += " (" + n.CoveredBy + ")"
		}
		cells := []string{
			n.NodeClaim, dash(n.InstanceType), dash(zone), capacity, n.PriceText(), percent(n.CPU), percent(n.Memory), n.PodsText(), n.StateText(o.Now),
		}
		if wide {
			cost := ""
			if n.Cost != (catalog.Cost{}) {
				cost = n.Cost.String()
			}
			cells = append(cells, age(o.Now, n.Created), dash(n.NodePool), dash(n.Node), dash(cost), dash(n.Why))
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	_ = tw.Flush() // The printer keeps the first error.
}

// bill writes how many nodes there are and what they cost.
func (o Overview) bill(out *printer, wide bool) {
	out.printf("%s, %s USD per hour", catalog.CountText(o.Launched, "node"), catalog.USD(o.CostPerHour))
	if o.CostPerHour > 0 {
		out.printf(" (%.0f per month), %.0f%% of it spot", o.CostPerHour*catalog.HoursPerMonth, o.SpotShare*100)
	}
	if o.Unpriced > 0 {
		out.printf("; %d without a known price", o.Unpriced)
	}
	if n := len(o.Nodes) - o.Launched; n > 0 {
		out.printf("; %d more not launched yet", n)
	}
	if o.Others > 0 {
		out.printf("; %s that slipway does not manage", catalog.CountText(o.Others, "node"))
	}
	out.printf("\n")
	if o.Cost.Total() > o.Cost.Instance && wide {
		out.printf("  of it: %s\n", o.Cost)
	}
}

// String prints the counts in the order of a pod's way.
func (c PodCounts) String() string {
	return fmt.Sprintf("%d pending, %d promised to a node that boots, %d bound, %d running", c.Pending, c.Promised, c.Bound, c.Running)
}

// Region returns what all zones begin with, up to the region's last hyphen, such as "us-east-" of us-east-1a; empty if they differ.
func (o Overview) Region() string {
	common := ""
	for _, n := range o.Nodes {
		if n.Zone == "" {
			continue
		}
		digit := strings.IndexAny(n.Zone, "0123456789")
		if digit <= 0 {
			return ""
		}
		if prefix := n.Zone[:digit]; common == "" {
			common = prefix
		} else if common != prefix {
			return ""
		}
	}
	return common
}

// PodsText returns the number of a node's pods, and after a plus that of pods which wait for it.
func (n NodeRow) PodsText() string {
	if n.Promised == 0 {
		return fmt.Sprint(n.Pods)
	}
	return fmt.Sprintf("%d+%d", n.Pods, n.Promised)
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", *share*100)
}

// PriceText returns the node's price in USD per hour; in brackets if it costs nothing yet.
func (n NodeRow) PriceText() string {
	switch {
	case n.Price == 0:
		return "-"
	case !n.Launched:
		return "(" + catalog.USD(n.Price) + ")"
	}
	return catalog.USD(n.Price)
}

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}

// WriteCommitments writes a row for each commitment: what the cluster may use of it, its share, and what is used; nothing without commitments.
func WriteCommitments(w io.Writer, list []catalog.CommitmentUse, at time.Time) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\nCommitments at %s:\n", at.UTC().Format(time.RFC3339))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "  ID\tKIND\tSHARE\tAMOUNT\tUSED")
	for _, u := range list {
		share := 1.0
		if u.Share > 0 || u.Amount == 0 {
			share = u.Share
		}
		fmt.Fprintf(tw, "  %s\t%s\t%.0f%%\t%g %s\t%.0f%%\n", u.ID, u.Kind, share*100, u.Amount, u.Unit, u.Used()*100)
	}
	_ = tw.Flush() // Output that cannot be written is found by the next line's error.
}
