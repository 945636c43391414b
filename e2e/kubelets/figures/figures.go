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
	// Ways in which it is measured, one after the other in each round.
	Ways []string
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

// Add writes a figure down.
func (f *File) Add(figure Figure) error {
	line, err := json.Marshal(figure)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	f.figures = append(f.figures, figure)
	return nil
}

// of are the seconds of one way in one cell, sorted.
func (f *File) of(cell, way string) []float64 {
	var out []float64
	for _, have := range f.figures {
		if have.Cell == cell && have.Way == way {
			out = append(out, have.Seconds)
		}
	}
	slices.Sort(out)
	return out
}

// Next is the way that was measured least, the first of several, so that rounds go through all cells and in each through all ways. It
// is false once every way has rounds figures.
func (f *File) Next(cells []Cell, rounds int) (cell, way string, more bool) {
	least := rounds
	for _, c := range cells {
		for _, w := range c.Ways {
			if n := len(f.of(c.Name, w)); n < least {
				cell, way, more, least = c.Name, w, true, n
			}
		}
	}
	return cell, way, more
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

// spread of sorted seconds in words.
func spread(sorted []float64) string {
	n := len(sorted)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f (%.1f–%.1f, %d)", (sorted[n/2]+sorted[(n-1)/2])/2, sorted[0], sorted[n-1], n)
}
