package billing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// Where an observation takes long, there are fewer: not so few that the record has gaps.
func TestObservationsAreRareWhereTheyTakeLong(t *testing.T) {
	for took, want := range map[time.Duration]int{0: 31, 400 * time.Millisecond: 13, 10 * time.Second: 5} {
		synctest.Test(t, func(t *testing.T) {
			w, looks := newWorld(t), 0
			w.recorder.config.Commitments = func() []commitment.Commitment {
				time.Sleep(took)
				looks++
				return nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+5*time.Second)
			defer cancel()
			if err := w.recorder.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if looks != want {
				t.Errorf("an observation takes %s: %d in five minutes, want %d", took, looks, want)
			}
		})
	}
}
