package spottrace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
)

// step is how long a line of a trace holds.
const step = 5 * time.Minute

// Quote is a spot offering in a step.
type Quote struct {
	// Price in USD per hour.
	Price float64
	// Available means that EC2 launches instances, and leaves those that run.
	Available bool
}

// Step is the market of five minutes.
type Step map[interruption.Offering]Quote

// Trace is a market, step by step.
type Trace []Step

// header is the first line of a trace's file.
func header() []string { return []string{"time", "zone", "instance_type", "price", "available"} }

// Read reads a trace as CSV, in order of time: time (RFC 3339), zone, instance_type, price in USD per hour, available (0 or 1). A step has the
// quotes of the step before where it has none of its own.
func Read(r io.Reader) (Trace, error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = len(header())
	first, err := rows.Read()
	if err != nil || !slices.Equal(first, header()) {
		return nil, fmt.Errorf("reading trace: the first line %q is expected, got %q: %w", strings.Join(header(), ","), strings.Join(first, ","), err)
	}
	var out Trace
	var start time.Time
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading trace: %w", err)
		}
		line, _ := rows.FieldPos(0)
		at, offering, quote, err := readRow(row)
		if err != nil {
			return nil, fmt.Errorf("reading trace: line %d: %w", line, err)
		}
		if len(out) == 0 {
			start = at
		}
		i := int(at.Sub(start) / step)
		if i < len(out)-1 || i > len(out)+maxGap {
			return nil, fmt.Errorf("reading trace: line %d: a time from %s on, and at most %d steps later, is expected, got %s", line, start, maxGap, at)
		}
		for len(out) <= i {
			next := Step{}
			if len(out) > 0 {
				next = maps.Clone(out[len(out)-1])
			}
			out = append(out, next)
		}
		out[i][offering] = quote
	}
	return out, nil
}

func readRow(row []string) (at time.Time, _ interruption.Offering, _ Quote, err error) {
	at, timeErr := time.Parse(time.RFC3339, row[0])
	price, priceErr := strconv.ParseFloat(row[3], 64)
	available, boolErr := strconv.ParseBool(row[4])
	if err := errors.Join(timeErr, priceErr, boolErr); err != nil || price <= 0 || row[1] == "" || row[2] == "" {
		return at, interruption.Offering{}, Quote{}, fmt.Errorf("a time, a zone, an instance type, a price above 0, and 0 or 1 are expected, got %q: %w", row, err)
	}
	return at, interruption.Offering{InstanceType: row[2], Zone: row[1]}, Quote{price, available}, nil
}

// maxGap bounds the steps that a recorded trace may lack in a row: a day.
const maxGap = 288

// Write writes the trace as Read reads it.
func (t Trace) Write(w io.Writer, start time.Time) error {
	rows := csv.NewWriter(w)
	_ = rows.Write(header()) // Flush reports the error.
	for i, s := range t {
		for _, o := range offerings(s) {
			q := s[o]
			_ = rows.Write([]string{
				start.Add(time.Duration(i) * step).Format(time.RFC3339), o.Zone, o.InstanceType, strconv.FormatFloat(q.Price, 'f', 6, 64),
				map[bool]string{false: "0", true: "1"}[q.Available],
			})
		}
	}
	rows.Flush()
	return rows.Error()
}

// Zones returns the zones of the trace, sorted.
func (t Trace) Zones() []string {
	found := map[string]bool{}
	for _, s := range t {
		for o := range s {
			found[o.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Types returns the instance types of the trace, sorted.
func (t Trace) Types() []string {
	found := map[string]bool{}
	for _, s := range t {
		for o := range s {
			found[o.InstanceType] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// offerings of the step, in order.
func offerings(s Step) []interruption.Offering {
	return slices.SortedFunc(maps.Keys(s), func(a, b interruption.Offering) int { return strings.Compare(a.String(), b.String()) })
}

// Kind is a kind of generated market.
type Kind string

// The kinds, by how long offerings stay available and how long they are out.
const (
	// Calm offerings are out for an hour every two days.
	Calm Kind = "calm"
	// Changing offerings are out for an hour and a half every ten hours.
	Changing Kind = "changing"
	// Scarce offerings are available for two hours, and then out for as long: most types of a zone together.
	Scarce Kind = "scarce"
	// Alternating offerings are all available for twenty minutes and all out for twenty: nothing is worth going back to.
	Alternating Kind = "alternating"
)

// means returns how many steps an offering of the kind stays available, and stays out, on average.
func (k Kind) means() (up, down float64) {
	switch k {
	case Changing:
		return 120, 18
	case Scarce:
		return 24, 24
	case Alternating:
		return 4, 4
	case Calm:
	}
	return 576, 12
}

// priceSteps is how many steps a generated price lasts.
const priceSteps = 12

// Generate makes a trace of so many steps for instance types with their on-demand prices, in the zones. In a scarce market each second change is
// one of the whole zone. The same seed gives the same trace.
func Generate(seed uint64, kind Kind, steps int, onDemand map[string]float64, zones []string) Trace {
	rng := rand.New(rand.NewPCG(seed, 7))
	up, down := kind.means()
	now := Step{}
	for _, zone := range zones {
		for _, name := range slices.Sorted(maps.Keys(onDemand)) {
			now[interruption.Offering{InstanceType: name, Zone: zone}] = Quote{onDemand[name] * (0.28 + 0.14*rng.Float64()), true}
		}
	}
	out := make(Trace, 0, steps)
	zoneOut := map[string]bool{}
	for i := range steps {
		for _, zone := range zones {
			if kind == Scarce && rng.Float64() < 1/map[bool]float64{false: 2 * up, true: down}[zoneOut[zone]] {
				zoneOut[zone] = !zoneOut[zone]
			}
		}
		next := Step{}
		for _, o := range offerings(now) {
			q, of := now[o], onDemand[o.InstanceType]
			if i%priceSteps == 0 {
				q.Price = min(max(q.Price*(0.95+0.1*rng.Float64()), of/5), of*4/5)
			}
			flip := rng.Float64() < 1/map[bool]float64{false: down, true: up}[q.Available]
			switch {
			case kind == Alternating:
				q.Available = i/int(up)%2 == 0
			case zoneOut[o.Zone]:
				q.Available = false
			case flip:
				q.Available = !q.Available
			}
			next[o] = q
		}
		out, now = append(out, next), next
	}
	return out
}
