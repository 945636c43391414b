package beside

import (
	"math"
	"time"
)

// Sample is a cluster at a moment.
type Sample struct {
	// At is the time since the phase began.
	At time.Duration
	// USD per hour of all instances of the NodePool.
	USD float64
	// Ready pods.
	Ready int
}

// Series are samples in the order of time. Each holds until the next.
type Series []Sample

// USDAt returns the bill per hour at a time, NaN before the first sample or after the last.
func (s Series) USDAt(at time.Duration) float64 {
	if len(s) == 0 || at > s[len(s)-1].At {
		return math.NaN()
	}
	out := math.NaN()
	for _, sample := range s {
		if sample.At <= at {
			out = sample.USD
		}
	}
	return out
}

// Paid returns what the series cost beyond a bill per hour that is held throughout, in USD.
func (s Series) Paid(beyond float64) float64 {
	sum := 0.0
	for i := 1; i < len(s); i++ {
		sum += (s[i-1].USD - beyond) * (s[i].At - s[i-1].At).Hours()
	}
	return sum
}

// Missing returns the sum over time of the pods that were wanted and not Ready, in pod seconds.
func (s Series) Missing(want int) float64 {
	sum := 0.0
	for i := 1; i < len(s); i++ {
		sum += float64(max(0, want-s[i-1].Ready)) * (s[i].At - s[i-1].At).Seconds()
	}
	return sum
}

// Steady returns when the bill last changed, in seconds. It returns NaN where that is within the calm time before the end.
func (s Series) Steady(calm time.Duration) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	last := time.Duration(0)
	for i := 1; i < len(s); i++ {
		if s[i].USD != s[i-1].USD {
			last = s[i].At
		}
	}
	if s[len(s)-1].At-last < calm {
		return math.NaN()
	}
	return last.Seconds()
}
