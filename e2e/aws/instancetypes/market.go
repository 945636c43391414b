package instancetypes

import (
	"hash/fnv"
	"math"
	"strconv"
	"time"
)

// chance is a number in [0, 1) that the seed and the names determine.
func (t *Table) chance(names ...string) float64 {
	h := fnv.New64a()
	// A hash takes any bytes.
	_, _ = h.Write([]byte(strconv.FormatInt(t.seed, 10)))
	for _, n := range names {
		_, _ = h.Write([]byte("/" + n))
	}
	x := h.Sum64()
	// FNV's last step mixes the upper bits little: spread them.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// Offered says whether a zone has the type. Common families are everywhere; accelerated ones, metal and those of the
// newest and the oldest generations are missing in some zone, as they are in any real region.
func (t *Table) Offered(name, zone string) bool {
	info, ok := t.Get(name)
	if !ok {
		return false
	}
	missing := 0.0
	switch {
	case info.Accelerators.Count > 0:
		missing = 0.35
	case info.Metal, info.Disks.Kind == "hdd":
		missing = 0.25
	case info.Family[len(info.Family)-2] == '8', info.Disks.Count > 0:
		missing = 0.15
	}
	// Whole families are missing rather than sizes, and none is missing everywhere.
	if t.chance("home", info.Family) < missing && zone[len(zone)-1] == "abc"[int(3*t.chance("away", info.Family))] {
		return false
	}
	return true
}

const (
	// step is how often spot prices change; EC2 moves them gradually too (EC2 user guide, "Spot Instance pricing").
	step = 20 * time.Minute
	// round trip of the market's slow wave, in steps.
	wave = 60
)

// SpotPrice is USD per hour at a time that is counted from the start of the simulation, and may be before it. It changes
// by steps, is different in each zone and always below the price on demand.
func (t *Table) SpotPrice(name, zone string, at time.Duration) float64 {
	info, ok := t.Get(name)
	if !ok {
		return 0
	}
	n := Step(at)
	// What the family sells for, how much each size and zone differs, where the market is, and some noise.
	share := 0.28 + 0.27*t.chance("family", info.Family)
	share *= 0.94 + 0.12*t.chance("size", name)
	share *= 0.85 + 0.30*t.chance("zone", info.Family, zone)
	phase := t.chance("phase", info.Family, zone)
	share *= 1 + 0.10*math.Sin(2*math.Pi*(float64(n)/wave+phase))
	share *= 0.985 + 0.03*t.chance("noise", name, zone, strconv.Itoa(n))
	return round(info.Price*min(max(share, 0.15), 0.85), 6)
}

// Step counts the steps of the spot prices up to a time.
func Step(at time.Duration) int { return int(math.Floor(float64(at) / float64(step))) }

// StepStart is when a step began.
func StepStart(n int) time.Duration { return time.Duration(n) * step }

// Depth is how much spare capacity the market has of a type in a zone, from 0 to 1.
func (t *Table) Depth(name, zone string) float64 { return t.chance("depth", name, zone) }
