package bill

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// By is what a bill is divided by.
type By string

// What a bill may be divided by; ByLabel and a key are a label.
const (
	ByNodePool  By = "nodepool"
	ByNamespace By = "namespace"
	ByWorkload  By = "workload"
	ByLabel     By = "label="
)

// ParseBy returns what the text names.
func ParseBy(text string) (By, error) {
	key, label := strings.CutPrefix(text, string(ByLabel))
	switch {
	case slices.Contains([]By{ByNodePool, ByNamespace, ByWorkload}, By(text)):
		return By(text), nil
	case label && strings.HasPrefix(key, LabelPrefix):
		return By(text), nil
	case label:
		return "", fmt.Errorf("--by %s: a label of %s is expected: others are not recorded", text, LabelPrefix)
	}
	return "", fmt.Errorf("--by %s: nodepool, namespace, workload or label=KEY is expected", text)
}

// Line is what one of them costs.
type Line struct {
	// Name of the NodePool, namespace, workload (NAMESPACE/KIND/NAME) or label's value; empty for pods without the label.
	Name string `json:"name"`
	// Requested is what pods requested, by part.
	Requested Parts `json:"requested"`
	// Idle is what no pod requested: of NodePools alone.
	Idle *Parts `json:"idle,omitempty"`
	// Interrupted is what nodes cost from their interruption on: of NodePools alone.
	Interrupted *Parts `json:"interrupted,omitempty"`
	// Total is the sum, in USD.
	Total float64 `json:"totalUSD"`
	// NodeHours is for how many hours of whole nodes it is.
	NodeHours float64 `json:"nodeHours"`
	// InterruptedPods is how many of its pods were on nodes that were interrupted.
	InterruptedPods int `json:"interruptedPods,omitempty"`
	// IdleShare is its share of what its nodes cost beyond what pods requested, in USD: not of NodePools, and not part of Total.
	IdleShare float64 `json:"idleShareUSD,omitempty"`
	// LostShare is its share of what its nodes cost from their interruption on, in USD: not of NodePools, and not part of Total.
	LostShare float64 `json:"lostShareUSD,omitempty"`
}

// Bill is what was paid.
type Bill struct {
	// Cluster is its name.
	Cluster string `json:"cluster,omitempty"`
	// By is what Lines are divided by.
	By By `json:"by"`
	// From is when the time begins that it is for.
	From time.Time `json:"from"`
	// To is when it ends.
	To time.Time `json:"to"`
	// Start is when the record starts.
	Start time.Time `json:"recordStart"`
	// UnobservedHours is for how much of the time the launcher did not observe the cluster: nodes that came and went then are missing.
	UnobservedHours float64 `json:"unobservedHours"`
	// Lines are the most expensive first.
	Lines []Line `json:"lines"`
	// Requested is what all pods requested.
	Requested Parts `json:"requested"`
	// Idle is what no pod requested.
	Idle Parts `json:"idle"`
	// Interrupted is what nodes cost from their interruption on.
	Interrupted Parts `json:"interrupted"`
	// Unused is what was paid for commitments that nothing used, by ID.
	Unused map[string]float64 `json:"unusedCommitments,omitempty"`
	// Fee is what AWS charges for the hours in which nodes of dedicated tenancy ran, once for each hour.
	Fee float64 `json:"dedicatedFeeUSD,omitempty"`
	// Total is the sum of all of it.
	Total float64 `json:"totalUSD"`
}

// New returns the bill of the records' days, of which there is at least one.
func New(records []Record, by By) Bill {
	records = slices.SortedFunc(slices.Values(records), func(a, b Record) int { return int(a.Day.Date - b.Day.Date) })
	last := records[len(records)-1]
	out := Bill{Cluster: last.Cluster, By: by, Start: last.Start, From: later(last.Start, records[0].Day.Date.Time()), To: last.Through, Unused: map[string]float64{}}
	lines, observed := map[string]*Line{}, 0.0
	for _, r := range records {
		for _, h := range r.Day.Hours {
			if h == nil {
				continue
			}
			observed += h.Observed
			out.add(h)
			h.divide(by, lines)
		}
	}
	out.UnobservedHours = max(out.To.Sub(out.From).Hours()-observed/3600, 0)
	out.Total = out.Requested.Plus(out.Idle).Plus(out.Interrupted).Total() + out.Fee
	for id, usd := range out.Unused {
		out.Total += usd
		out.Unused[id] = round(usd)
	}
	out.Requested, out.Idle, out.Interrupted = out.Requested.rounded(), out.Idle.rounded(), out.Interrupted.rounded()
	out.Total, out.UnobservedHours = round(out.Total), round(out.UnobservedHours)
	for _, l := range lines {
		l.Total = l.Requested.Total()
		if l.Idle != nil {
			l.Total += l.Idle.Total() + l.Interrupted.Total()
		}
		out.Lines = append(out.Lines, l.rounded())
	}
	slices.SortFunc(out.Lines, func(a, b Line) int { return cmp.Or(cmp.Compare(b.Total, a.Total), strings.Compare(a.Name, b.Name)) })
	return out
}

// rounded returns the line in billionths of USD.
func (l Line) rounded() Line {
	l.Requested, l.Total, l.NodeHours = l.Requested.rounded(), round(l.Total), round(l.NodeHours)
	l.IdleShare, l.LostShare = round(l.IdleShare), round(l.LostShare)
	if l.Idle != nil {
		l.Idle, l.Interrupted = new(l.Idle.rounded()), new(l.Interrupted.rounded())
	}
	return l
}

func round(x float64) float64 { return math.Round(x*nano) / nano }

// rounded returns the parts in billionths of USD.
func (p Parts) rounded() Parts { return decodeParts(p.encode()) }

// add adds an hour to the sums.
func (b *Bill) add(h *Hour) {
	for _, p := range h.Pools {
		b.Requested, b.Idle, b.Interrupted = b.Requested.Plus(p.Requested), b.Idle.Plus(p.Idle), b.Interrupted.Plus(p.Interrupted)
	}
	for id, usd := range h.Unused {
		b.Unused[id] += usd
	}
	b.Fee += h.Fee
}

// divide adds an hour to the lines.
func (h *Hour) divide(by By, lines map[string]*Line) {
	line := func(name string) *Line {
		l, ok := lines[name]
		if !ok {
			l = &Line{Name: name}
			lines[name] = l
		}
		return l
	}
	if by == ByNodePool {
		for name, p := range h.Pools {
			l := line(name)
			if l.Idle == nil {
				l.Idle, l.Interrupted = &Parts{}, &Parts{}
			}
			l.Requested, *l.Idle, *l.Interrupted = l.Requested.Plus(p.Requested), l.Idle.Plus(p.Idle), l.Interrupted.Plus(p.Interrupted)
			l.NodeHours += p.NodeHours
		}
		return
	}
	for k, r := range h.Rows {
		l := line(k.name(by))
		l.Requested, l.NodeHours, l.InterruptedPods = l.Requested.Plus(r.Parts), l.NodeHours+r.NodeHours, l.InterruptedPods+r.Interrupted
		l.IdleShare, l.LostShare = l.IdleShare+r.Idle, l.LostShare+r.Lost
	}
}

// name returns the name of the line that a workload belongs to.
func (k Key) name(by By) string {
	label, isLabel := strings.CutPrefix(string(by), string(ByLabel))
	switch {
	case by == ByNamespace:
		return k.Namespace
	case isLabel:
		return k.LabelMap()[label]
	case k.Kind == "":
		return k.Namespace + "/" + Other
	}
	return k.Namespace + "/" + k.Kind + "/" + k.Name
}

// Format is how a bill is written.
type Format string

// The formats of `slipway bill`.
const (
	FormatTable Format = "table"
	FormatJSON  Format = "json"
	FormatFOCUS Format = "focus"
)

// Write writes the bill of the records.
func Write(w io.Writer, records []Record, by By, format Format) error {
	if len(records) == 0 {
		return errors.New("reading the record: it has no day yet")
	}
	switch format {
	case FormatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(New(records, by))
	case FormatFOCUS:
		return writeFOCUS(w, records)
	case FormatTable:
		return New(records, by).table(w)
	}
	return fmt.Errorf("--output %s: %s, %s or %s is expected", format, FormatTable, FormatJSON, FormatFOCUS)
}

// table writes a line for each, then what belongs to none of them, and the sum.
func (b Bill) table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	head := strings.ToUpper(strings.TrimPrefix(string(b.By), string(ByLabel)))
	pools := b.By == ByNodePool
	if pools {
		fmt.Fprintf(tw, "USD\tREQUESTED\tIDLE\tINTERRUPTED\tNODE HOURS\t  %s\n", head)
	} else {
		fmt.Fprintf(tw, "USD\tIDLE SHARE\tLOST SHARE\tNODE HOURS\tINTERRUPTED PODS\t  %s\n", head)
	}
	for _, l := range b.Lines {
		name := l.Name
		if name == "" {
			name = "(none)"
		}
		if pools {
			fmt.Fprintf(tw, "%.4f\t%.4f\t%.4f\t%.4f\t%.2f\t  %s\n", l.Total, l.Requested.Total(), l.Idle.Total(), l.Interrupted.Total(), l.NodeHours, name)
		} else {
			fmt.Fprintf(tw, "%.4f\t%.4f\t%.4f\t%.2f\t%d\t  %s\n", l.Total, l.IdleShare, l.LostShare, l.NodeHours, l.InterruptedPods, name)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	all := b.Requested.Plus(b.Idle).Plus(b.Interrupted)
	_, err := fmt.Fprintf(w, "\n%.4f USD from %s to %s: %.4f requested, %.4f idle, %.4f lost to interruptions", b.Total,
		b.From.UTC().Format(minute), b.To.UTC().Format(minute), b.Requested.Total(), b.Idle.Total(), b.Interrupted.Total())
	unused := 0.0
	for _, usd := range b.Unused {
		unused += usd
	}
	if unused > 0 {
		fmt.Fprintf(w, ", %.4f for commitments that nothing used", unused)
	}
	if b.Fee > 0 {
		fmt.Fprintf(w, ", %.4f for hours with dedicated instances in the region", b.Fee)
	}
	fmt.Fprintf(w, "\n  of it: %s\n", all)
	if share := b.UnobservedHours; share >= 0.05 {
		fmt.Fprintf(w, "  not observed for %.1f hours: nodes that came and went meanwhile are missing\n", share)
	}
	fmt.Fprintf(w, "  The record starts at %s.\n", b.Start.UTC().Format(minute))
	return err
}

const minute = "2006-01-02T15:04Z"
