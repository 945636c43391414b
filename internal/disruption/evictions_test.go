package disruption_test

import (
	"math"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// Evictions cost more while many of the pods were evicted lately, and as much as ever after a calm time. The first minutes do not count: moves that one
// change of the load sets off do not hold each other back.
func TestEvictionsStrain(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	half := disruption.Evictions{}.With(50, now) // of 90 pods
	hour := now.Add(time.Hour)
	counted := 6 * (math.Exp(-1.0/3) - math.Exp(-6))
	for name, c := range map[string]struct {
		evictions disruption.Evictions
		pods      int
		at        time.Time
		want      float64
	}{
		"none":                         {disruption.Evictions{}, 90, now, 1},
		"half of the pods":             {half, 90, now, 1},
		"a minute later":               {half, 90, now.Add(time.Minute), 1 + 6*(math.Exp(-1.0/180)-math.Exp(-0.1))},
		"an hour later":                {half, 90, hour, 1 + counted},
		"three hours later":            {half, 90, now.Add(3 * time.Hour), 1 + 6/math.E},
		"a day later":                  {half, 90, now.Add(24 * time.Hour), 1},
		"twice":                        {half.With(50, now), 90, hour, 1 + 2*counted},
		"again, an hour later":         {half.With(50, hour), 90, hour, 1 + counted},
		"of many pods":                 {half, 9_990, hour, 1 + counted/100},
		"of no pods":                   {half, 0, hour, 1 + 10*counted},
		"less than none":               {half.With(-1, now), 90, hour, 1 + counted},
		"a clock that was turned back": {half, 90, now.Add(-time.Hour), 1},
	} {
		if got := c.evictions.Strain(c.pods, c.at); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: %.3f, want %.3f", name, got, c.want)
		}
	}
}
