// Package beside is pure: it keeps what slipway and Karpenter did in each phase of a comparison, computes medians, and writes them as the
// tables of docs/benchmarks.md.
package beside

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Figure is one thing that was measured.
type Figure struct {
	// Name is the heading of its column, Unit what follows the number; empty for none.
	Name, Unit string
	// Digits after the decimal point.
	Digits int
	// Value is NaN where it was not reached.
	Value float64
}

// Seconds is a duration.
func Seconds(name string, value float64) Figure { return Figure{name, "s", 0, value} }

// Count is a number of things.
func Count(name string, value int) Figure { return Figure{name, "", 0, float64(value)} }

// USD is an amount, or a rate that the name gives.
func USD(name string, value float64) Figure { return Figure{name, "", 2, value} }

// Run is one side in one phase of one round.
type Run struct {
	// Phase and Side by name.
	Phase, Side string
	// Figures are those of the phase, in the order of columns; none where the side did not come to the phase's end.
	Figures []Figure
}

// Get returns a figure's value, NaN without it.
func (r Run) Get(name string) float64 {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return math.NaN()
}

// Median returns the median of each figure of a side by itself, over the runs that came to the end, and their number. Of two in the middle it
// is the larger. A value that was not reached is larger than all others.
func Median(runs []Run, phase, side string) (Run, int) {
	out := Run{Phase: phase, Side: side}
	ended := slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Phase != phase || r.Side != side || len(r.Figures) == 0 })
	if len(ended) == 0 {
		return out, 0
	}
	for _, f := range ended[0].Figures {
		values := make([]float64, len(ended))
		for i, r := range ended {
			values[i] = r.Get(f.Name)
			if math.IsNaN(values[i]) {
				values[i] = math.Inf(1)
			}
		}
		slices.Sort(values)
		if f.Value = values[len(values)/2]; math.IsInf(f.Value, 1) {
			f.Value = math.NaN()
		}
		out.Figures = append(out.Figures, f)
	}
	return out, len(ended)
}

// Tables writes one Markdown table for each phase, in the order in which phases first appear, with the sides in the order given.
func Tables(runs []Run, sides []string) string {
	var out strings.Builder
	var phases []string
	for _, r := range runs {
		if !slices.Contains(phases, r.Phase) {
			phases = append(phases, r.Phase)
		}
	}
	for _, phase := range phases {
		table(&out, runs, phase, sides)
	}
	return out.String()
}

// table writes that of one phase. A side without a run that ended has a row that says so.
func table(out *strings.Builder, runs []Run, phase string, sides []string) {
	header, failed := false, ""
	for _, side := range sides {
		m, n := Median(runs, phase, side)
		started := len(slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Phase != phase || r.Side != side }))
		if n > 0 && !header {
			header = true
			fmt.Fprintf(out, "\n| %s | runs |", phase)
			for _, f := range m.Figures {
				fmt.Fprintf(out, " %s |", f.Name)
			}
			fmt.Fprintf(out, "\n|---|--:|%s\n", strings.Repeat("--:|", len(m.Figures)))
		}
		if n == 0 {
			failed += fmt.Sprintf("\n%s: of the runs of %s, %s ended.\n", phase, side, ended(n, started))
			continue
		}
		fmt.Fprintf(out, "| %s | %s |", side, ended(n, started))
		for _, f := range m.Figures {
			fmt.Fprintf(out, " %s |", f.text())
		}
		out.WriteString("\n")
	}
	out.WriteString(failed)
}

// ended is how many runs came to the end, and of how many where some did not.
func ended(n, of int) string {
	if n == of {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, of)
}

// text is a table's cell.
func (f Figure) text() string {
	if math.IsNaN(f.Value) {
		return "not reached"
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", f.Digits, f.Value, f.Unit))
}
