package terminate

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Refused evictions of pods that were deleted otherwise are forgotten an hour later, and looked for once a minute, however many are refused meanwhile.
func TestRefusalsAreForgotten(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := backoff{pods: map[types.UID]attempt{}}
	b.refused("gone", start)
	for _, step := range []struct {
		after time.Duration
		have  bool
	}{{time.Hour, true}, {2 * time.Hour, false}, {2*time.Hour + sweepEvery - time.Second, true}, {2*time.Hour + sweepEvery, false}} {
		if _, ok := b.pods["gone"]; !ok {
			b.pods["gone"] = attempt{next: start}
		}
		b.refused("pod", start.Add(step.after))
		if _, ok := b.pods["gone"]; ok != step.have {
			t.Errorf("after %s it is known %t, want %t", step.after, ok, step.have)
		}
		if b.due("pod", start.Add(step.after)) {
			t.Errorf("after %s a refused eviction is due at once", step.after)
		}
	}
}
