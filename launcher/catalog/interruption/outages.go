package interruption

import (
	"math"
	"time"
)

const (
	// SettleAfter is how long after an interruption, or a refusal, only pods that no other offering can run get nodes of the offering, and no on-demand
	// node is replaced by one.
	SettleAfter = 10 * time.Minute
	// Longest is the most that counts of how long a node lasted: a move that two hours on spot do not pay for is not made.
	Longest = 2 * time.Hour
	// sameOutage is within what time interruptions belong to one outage.
	sameOutage = 10 * time.Minute
	// fades is how long after the last outage what was learned of an offering counts half, beside what was learned of its zone, and that beside Longest.
	fades = 48 * time.Hour
	// ownWeight and zoneWeight are how much the last outage counts in what was learned of an offering, and of a zone with all its offerings.
	ownWeight, zoneWeight = 0.25, 0.125
)

// Outages are those of an offering, or of all offerings of a zone.
type Outages struct {
	// Last is when the last interruption was; zero for none.
	Last time.Time `json:"last,omitzero"`
	// Lasted is for how many hours nodes lasted until an outage, as a moving average of at most Longest; 0 where it is not known.
	Lasted float64 `json:"lasted,omitempty"`
}

// learned returns what is known after one more outage, of nodes that lasted so many hours where so many were expected.
func learned(now time.Time, lasted, expected, weight float64) Outages {
	return Outages{now, rounded(expected + weight*(min(max(lasted, 0), Longest.Hours())-expected))}
}

// expected returns for how many hours a node is expected to last: what was learned, and more of otherwise the longer ago that was.
func (o Outages) expected(now time.Time, otherwise float64) float64 {
	if o.Last.IsZero() || o.Lasted <= 0 {
		return otherwise
	}
	fresh := math.Exp2(-max(now.Sub(o.Last), 0).Hours() / fades.Hours())
	return otherwise + fresh*(min(o.Lasted, Longest.Hours())-otherwise)
}

// settlesAt returns until when nothing is moved there; zero if there was no outage.
func (o Outages) settlesAt() time.Time {
	if o.Last.IsZero() {
		return time.Time{}
	}
	return o.Last.Add(SettleAfter)
}

// rounded is to the second, as it is stored.
func (o Outages) rounded() Outages {
	return Outages{o.Last.UTC().Truncate(time.Second), rounded(o.Lasted)}
}

// outage notes an interruption of a node of the offering, which has seen so much. The oldest of the nodes that are not of an earlier outage counts.
func (r *Record) outage(now time.Time, o Offering, seen Outages, nodes []Node) Outages {
	if !seen.Last.IsZero() && now.Sub(seen.Last) < sameOutage {
		seen.Last = now
		return seen
	}
	var lasted time.Duration
	for _, n := range nodes {
		if n.Offering == o && (!n.Interrupted || !r.Counted[n.ID]) {
			lasted = max(lasted, now.Sub(n.Since))
		}
	}
	zone, known := r.Zones[o.Zone]
	inZone := zone.expected(now, Longest.Hours())
	if known || len(r.Zones) < mostZones {
		if r.Zones == nil {
			r.Zones = map[string]Outages{}
		}
		r.Zones[o.Zone] = learned(now, lasted.Hours(), inZone, zoneWeight)
	}
	return learned(now, lasted.Hours(), seen.expected(now, inZone), ownWeight)
}

// SettlesAt returns until when only pods that no other offering can run get nodes of the offering, because of its last outage; zero for no such time.
func (r *Record) SettlesAt(o Offering) time.Time { return r.Seen[o].settlesAt() }

// Lasts returns how long a node of the offering that is launched now is expected to last, Longest at most: the mean of what was learned of the
// offering and of its zone. As of Through.
func (r *Record) Lasts(o Offering) time.Duration {
	zone := r.Zones[o.Zone].expected(r.Through, Longest.Hours())
	own := r.Seen[o].expected(r.Through, zone)
	return time.Duration((own + zone) / 2 * float64(time.Hour))
}
