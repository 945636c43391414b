package interruption

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// HalfLife is the age at which an observation counts half.
	HalfLife = 7 * 24 * time.Hour
	// PriorHours is how many hours of an instance the prior is worth.
	PriorHours = 100
	// MostCost is more than an interrupted pod can cost, in USD: a larger value is a mistake of units.
	MostCost = 10000
	// mostOfferings bounds a record: about 60 KiB.
	mostOfferings = 1000
	// mostZones bounds the zones of a record, and zonesFor is how long after its last outage a zone is dropped: it is as good as never seen.
	mostZones, zonesFor = 100, 10 * fades
	// forgotten is the weight, in hours, below which an offering is dropped: it is as good as never seen.
	forgotten = 0.01
)

// Offering is what EC2 interrupts together: an instance type in a zone.
type Offering struct {
	// InstanceType such as m5.large.
	InstanceType string
	// Zone such as us-east-1a.
	Zone string
}

// String is TYPE/ZONE.
func (o Offering) String() string { return o.InstanceType + "/" + o.Zone }

// Seen is what this cluster saw of an offering, weighted by age.
type Seen struct {
	// Hours of running instances.
	Hours float64 `json:"hours"`
	// Interruptions of them.
	Interruptions float64 `json:"interruptions"`
	// Outages of the offering.
	Outages
}

// weight is how much the offering's entry says, in hours.
func (s Seen) weight() float64 { return s.Hours + s.Interruptions*PriorHours }

// Record is what was observed. The zero value has seen nothing.
type Record struct {
	// Through is until when nodes were observed.
	Through time.Time
	// Seen is by offering, weighted as of Through.
	Seen map[Offering]Seen
	// Zones are the outages of all offerings of a zone, by zone.
	Zones map[string]Outages
	// Counted are the IDs of interrupted nodes that exist still.
	Counted map[string]bool
}

// Node is a spot node as it is observed.
type Node struct {
	// ID is another one for each node.
	ID string
	// Offering that it was launched as.
	Offering Offering
	// Since is when its instance was launched.
	Since time.Time
	// Interrupted means that EC2 has announced that it takes the instance back.
	Interrupted bool
}

// Observe adds the time since the last observation. It reports whether a node was interrupted meanwhile.
func (r *Record) Observe(now time.Time, nodes []Node) (interrupted bool) {
	if r.Through.IsZero() || now.Before(r.Through) {
		r.Through = now
	}
	if r.Seen == nil {
		r.Seen = map[Offering]Seen{}
	}
	r.age(now.Sub(r.Through))
	counted := map[string]bool{}
	for _, n := range nodes {
		seen := r.Seen[n.Offering]
		switch {
		case !n.Interrupted:
			since := r.Through
			if n.Since.After(since) {
				since = n.Since
			}
			seen.Hours += max(now.Sub(since).Hours(), 0)
		case r.Counted[n.ID]:
			counted[n.ID] = true
		default:
			seen.Interruptions++
			seen.Outages = r.outage(now, n.Offering, seen.Outages, nodes)
			counted[n.ID], interrupted = true, true
		}
		r.Seen[n.Offering] = seen
	}
	r.Through, r.Counted = now, counted
	r.bound()
	return interrupted
}

// age weights everything less by the time that has passed.
func (r *Record) age(passed time.Duration) {
	factor := math.Exp2(-passed.Hours() / HalfLife.Hours())
	for o, s := range r.Seen {
		r.Seen[o] = Seen{s.Hours * factor, s.Interruptions * factor, s.Outages}
	}
}

// bound drops what says nothing any more, and beyond the bound what says least.
func (r *Record) bound() {
	maps.DeleteFunc(r.Seen, func(_ Offering, s Seen) bool { return s.weight() < forgotten && s.Interruptions < forgotten })
	maps.DeleteFunc(r.Zones, func(_ string, z Outages) bool { return r.Through.Sub(z.Last) > zonesFor })
	if len(r.Seen) <= mostOfferings {
		return
	}
	order := slices.SortedFunc(maps.Keys(r.Seen), func(a, b Offering) int {
		return cmp.Or(cmp.Compare(r.Seen[a].weight(), r.Seen[b].weight()), strings.Compare(a.String(), b.String()))
	})
	for _, o := range order[:len(order)-mostOfferings] {
		delete(r.Seen, o)
	}
}

// PerHour returns the estimated interruptions of an instance of the offering per hour.
func (r *Record) PerHour(o Offering, priors Priors) float64 {
	seen := r.Seen[o]
	return (seen.Interruptions + priors.ofOffering(o)*PriorHours) / (seen.Hours + PriorHours)
}

// encoded is a Record as JSON, with its offerings in order.
type encoded struct {
	Through time.Time          `json:"through"`
	Seen    map[string]Seen    `json:"seen"`
	Zones   map[string]Outages `json:"zones,omitempty"`
	Counted []string           `json:"counted,omitempty"`
}

// Encode returns the record as JSON; equal records have equal texts.
func (r *Record) Encode() (string, error) {
	e := encoded{Through: r.Through.UTC().Truncate(time.Second), Seen: map[string]Seen{}, Zones: map[string]Outages{}, Counted: slices.Sorted(maps.Keys(r.Counted))}
	for o, s := range r.Seen {
		e.Seen[o.String()] = Seen{rounded(s.Hours), rounded(s.Interruptions), s.rounded()}
	}
	for zone, outages := range r.Zones {
		e.Zones[zone] = outages.rounded()
	}
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encoding interruptions: %w", err)
	}
	return string(text), nil
}

func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// Decode reads what Encode wrote. An empty text is an empty record.
func Decode(text string) (Record, error) {
	if text == "" {
		return Record{}, nil
	}
	var e encoded
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return Record{}, fmt.Errorf("decoding interruptions: %w", err)
	}
	out := Record{Through: e.Through, Seen: map[Offering]Seen{}, Counted: map[string]bool{}}
	for name, s := range e.Seen {
		instanceType, zone, ok := strings.Cut(name, "/")
		if !ok || !(s.Hours >= 0 && s.Interruptions >= 0) || math.IsInf(s.Hours+s.Interruptions, 1) {
			return Record{}, fmt.Errorf("decoding interruptions: seen[%s]: TYPE/ZONE with hours and interruptions of 0 or more is expected, got %+v", name, s)
		}
		out.Seen[Offering{instanceType, zone}] = s
	}
	for _, zone := range slices.Sorted(maps.Keys(e.Zones)) {
		if out.Zones == nil {
			out.Zones = map[string]Outages{}
		}
		if len(out.Zones) < mostZones {
			out.Zones[zone] = e.Zones[zone]
		}
	}
	for _, id := range e.Counted {
		out.Counted[id] = true
	}
	out.bound()
	return out, nil
}

// Apply returns the instance types with what is known on their interruptible offerings: the expected loss for each pod, if an interrupted one costs so
// many USD, until when nothing moves there, and how long a node lasts. The list itself is not changed.
func (k *Known) Apply(list []catalog.InstanceType, perPod float64) []catalog.InstanceType {
	out := slices.Clone(list)
	for i := range out {
		out[i].Offerings = slices.Clone(out[i].Offerings)
		for j := range out[i].Offerings {
			if o := &out[i].Offerings[j]; catalog.CapacityTypeOf(o.CapacityType).Interruptible {
				of := Offering{out[i].Name, o.Zone}
				o.LossPerPod, o.SettlesAt, o.Lasts = k.PerHour(of)*perPod, k.SettlesAt(of), 0
				if lasts := k.Lasts(of); lasts < Longest {
					o.Lasts = lasts
				}
			}
		}
	}
	return out
}
