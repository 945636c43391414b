package billing

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// A node that goes between two observations is charged until it ended: as its NodeClaim said last, or until that was deleted.
func TestNodesThatGo(t *testing.T) {
	for name, c := range map[string]struct {
		terminated bool
		seconds    float64
	}{"terminated": {true, 125}, "taken away": {false, 128}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				claim, n := node("n", "on-demand", time.Now())
				w.create(claim, n)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- w.recorder.Run(ctx) }()
				time.Sleep(125 * time.Second)
				last := claim.DeepCopy()
				if c.terminated {
					last.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
				}
				time.Sleep(3 * time.Second)
				if err := w.client.Delete(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
				w.recorder.gone.add(toolscache.DeletedFinalStateUnknown{Obj: last})
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				// Its volume is charged until the next observation, at 130 s.
				want := (0.096*c.seconds + 0.002*130) / 3600
				if got := w.recorded().Total; math.Abs(got-want) > 1e-7 {
					t.Errorf("%.7f USD are recorded, want %.7f for %v s", got, want, c.seconds)
				}
			})
		})
	}
}
