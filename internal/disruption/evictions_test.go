package disruption_test

import (
	"math"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// Evictions cost more while many of the pods were evicted lately, and as much as ever after a calm time.
func TestEvictionsStrain(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	half := disruption.Evictions{}.With(50, now) // of 90 pods
	for name, c := range map[string]struct {
		evictions disruption.Evictions
		pods      int
		at        time.Time
		want      float64
	}{
		"none":                         {disruption.Evictions{}, 90, now, 1},
		"half of the pods":             {half, 90, now, 7},
		"three hours later":            {half, 90, now.Add(3 * time.Hour), 1 + 6/math.E},
		"a day later":                  {half, 90, now.Add(24 * time.Hour), 1},
		"twice":                        {half.With(50, now), 90, now, 13},
		"again, three hours later":     {half.With(50, now.Add(3*time.Hour)), 90, now.Add(3 * time.Hour), 7 + 6/math.E},
		"of many pods":                 {half, 9_990, now, 1.06},
		"of no pods":                   {half, 0, now, 61},
		"less than none":               {half.With(-1, now), 90, now, 7},
		"a clock that was turned back": {half, 90, now.Add(-time.Hour), 7},
	} {
		if got := c.evictions.Strain(c.pods, c.at); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: %.3f, want %.3f", name, got, c.want)
		}
	}
}
