package interruption

import "time"

const (
	// SettleFirst is how long after an interruption only pods that no other offering can run get nodes of the offering, and no on-demand node is
	// replaced by one. It doubles with each outage in a row, up to SettleMost.
	SettleFirst = 30 * time.Minute
	// SettleMost bounds that time.
	SettleMost = 8 * time.Hour
	// Memory is how long an offering has to last from when it has settled: an outage before that is one more of a row. Two hours on spot pay for the
	// moves there and back.
	Memory = 2 * time.Hour
	// sameOutage is within what time interruptions belong to one outage.
	sameOutage = 10 * time.Minute
)

// Outages are those of an offering, or of a zone.
type Outages struct {
	// Last is when the last interruption was; zero for none.
	Last time.Time `json:"last,omitzero"`
	// Row counts the outages in a row: those of which each began within Memory of when the one before had settled.
	Row int `json:"row,omitempty"`
}

// note notes an interruption.
func (o *Outages) note(now time.Time) {
	switch since := now.Sub(o.Last); {
	case o.Row > 0 && since < sameOutage:
	case o.Row > 0 && since < o.hold()+Memory:
		o.Row = min(o.Row+1, 30)
	default:
		o.Row = 1
	}
	o.Last = now
}

// SettlesAt returns until when nothing is moved there; zero if there was no outage.
func (o Outages) SettlesAt() time.Time {
	if o.Row <= 0 {
		return time.Time{}
	}
	return o.Last.Add(o.hold())
}

// hold is how long after its last outage the offering settles.
func (o Outages) hold() time.Duration {
	hold := SettleFirst
	for range min(o.Row, 30) - 1 {
		hold = min(2*hold, SettleMost)
	}
	return hold
}

// rounded is to the second, as it is stored.
func (o Outages) rounded() Outages { return Outages{o.Last.UTC().Truncate(time.Second), o.Row} }

// zoneOutages notes outages of zones: EC2 took nodes of several offerings of the zone back within sameOutage, and of more than it left alone. The nodes
// are those that were observed now.
func (r *Record) zoneOutages(now time.Time, nodes []Node) {
	type part struct{ taken, left map[string]bool }
	zones := map[string]part{}
	for _, n := range nodes {
		p, ok := zones[n.Offering.Zone]
		if !ok {
			p = part{map[string]bool{}, map[string]bool{}}
			zones[n.Offering.Zone] = p
		}
		if seen := r.Seen[n.Offering]; seen.Row > 0 && now.Sub(seen.Last) < sameOutage {
			p.taken[n.Offering.InstanceType] = true
		} else if !n.Interrupted {
			p.left[n.Offering.InstanceType] = true
		}
	}
	for zone, p := range zones {
		if len(p.taken) < 2 || len(p.taken) <= len(p.left) {
			continue
		}
		if r.Zones == nil {
			r.Zones = map[string]Outages{}
		}
		if z := r.Zones[zone]; len(r.Zones) < mostZones || z.Row > 0 {
			z.note(now)
			r.Zones[zone] = z
		}
	}
}

// SettlesAt returns until when only pods that no other offering can run get nodes of the offering, because of its outages or those of its zone; zero
// for no such time.
func (r *Record) SettlesAt(o Offering) time.Time {
	own, zone := r.Seen[o].SettlesAt(), r.Zones[o.Zone].SettlesAt()
	if zone.After(own) {
		return zone
	}
	return own
}
