// Package figures keeps what the benchmark on real kubelets measures: in a file, one figure a line, so that a run that was ended
// goes on where it was, and runs add up. It says what to measure next, and what the medians are. It starts no goroutine.
package figures

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Cell is one situation, which is measured in several ways.
type Cell struct {
	// Name of the situation.
	Name string
	// Ways in which it is measured, all of them in each round.
	Ways []string
}

// Pair is two ways that are compared round by round.
type Pair struct {
	// Way is held against Other.
	Way, Other string
}

// Figure is one measurement.
type Figure struct {
	// Cell and Way by name.
	Cell, Way string
	// Seconds that it took.
	Seconds float64
}

// File is a file of figures. It is not safe for concurrent use.
type File struct {
	path    string
	figures []Figure
}

// Open reads the figures of a file; one that does not exist has none. A last line that was not written to its end is left out.
func Open(path string) (*File, error) {
	f := &File{path: path}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	for s, n := bufio.NewScanner(bytes.NewReader(whole)), 1; s.Scan(); n++ {
		var figure Figure
		if err := json.Unmarshal(s.Bytes(), &figure); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w: want a figure of this benchmark", path, n, err)
		}
		f.figures = append(f.figures, figure)
	}
	if len(whole) < len(data) {
		return f, os.WriteFile(path, whole, 0o600)
	}
	return f, nil
}

// Add writes the figures of a round down, all of them at once.
func (f *File) Add(round ...Figure) error {
	var lines []byte
	for _, figure := range round {
		line, err := json.Marshal(figure)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(lines)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	f.figures = append(f.figures, round...)
	return nil
}

// of are the seconds of one way in one cell, round after round.
func (f *File) of(cell, way string) []float64 {
	var out []float64
	for _, have := range f.figures {
		if have.Cell == cell && have.Way == way {
			out = append(out, have.Seconds)
		}
	}
	return out
}

// Next is the cell that has fewest rounds, the first of several, and how many it has, so that a run goes through all cells again and
// again. It is false once every cell has enough.
func (f *File) Next(cells []Cell, enough int) (next Cell, round int, more bool) {
	round = enough
	for _, c := range cells {
		for _, w := range c.Ways {
			if n := len(f.of(c.Name, w)); n < round {
				next, round, more = c, n, true
			}
		}
	}
	return next, round, more
}

// Table is the medians of the cells as a table of Markdown: median (lowest to highest, number of figures).
func (f *File) Table(cells []Cell) string {
	var ways []string
	for _, c := range cells {
		for _, w := range c.Ways {
			if !slices.Contains(ways, w) {
				ways = append(ways, w)
			}
		}
	}
	slices.Sort(ways)
	out := &strings.Builder{}
	fmt.Fprintf(out, "| seconds: median (lowest–highest, rounds) | %s |\n|---|%s\n", strings.Join(ways, " | "), strings.Repeat("---|", len(ways)))
	for _, c := range cells {
		fmt.Fprintf(out, "| %s |", c.Name)
		for _, w := range ways {
			fmt.Fprintf(out, " %s |", spread(f.of(c.Name, w)))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// Compare says of each pair of ways how much later the one was than the other in the same round: the median of the differences, and
// in how many rounds it was earlier.
func (f *File) Compare(cells []Cell, pairs []Pair) string {
	out := &strings.Builder{}
	out.WriteString("| later by, seconds: median (lowest–highest), earlier in |")
	for _, p := range pairs {
		fmt.Fprintf(out, " %s than %s |", p.Way, p.Other)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---|", len(pairs)))
	for _, c := range cells {
		fmt.Fprintf(out, "| %s |", c.Name)
		for _, p := range pairs {
			fmt.Fprintf(out, " %s |", later(f.of(c.Name, p.Way), f.of(c.Name, p.Other)))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// later are the differences of two ways in words.
func later(way, other []float64) string {
	var differences []float64
	earlier := 0
	for i := range min(len(way), len(other)) {
		differences = append(differences, way[i]-other[i])
		if way[i] < other[i] {
			earlier++
		}
	}
	if len(differences) == 0 {
		return ""
	}
	middle, low, high := middleOf(differences)
	return fmt.Sprintf("%+.1f (%+.1f–%+.1f), %d of %d", middle, low, high, earlier, len(differences))
}

// spread of seconds in words.
func spread(seconds []float64) string {
	if len(seconds) == 0 {
		return ""
	}
	middle, low, high := middleOf(seconds)
	return fmt.Sprintf("%.1f (%.1f–%.1f, %d)", middle, low, high, len(seconds))
}

// middleOf some values is their median, with the lowest and the highest.
func middleOf(values []float64) (middle, low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2, sorted[0], sorted[n-1]
}
