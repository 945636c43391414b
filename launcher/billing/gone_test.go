package billing

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// A node that goes between two observations is charged until it ended: as its NodeClaim said last, or until that was deleted. The instance of a spot node that
// EC2 took back within an hour costs nothing.
func TestNodesThatGo(t *testing.T) {
	for name, c := range map[string]struct {
		capacityType string
		terminated   bool
		reason       cloud.MessageKind
		usd, seconds float64
	}{
		"terminated":                   {"on-demand", true, "", 0.096, 125},
		"taken away":                   {"on-demand", false, "", 0.096, 128},
		"spot, terminated":             {"spot", true, cloud.SpotInterrupted, 0.03, 125},
		"spot, gone by itself":         {"spot", false, "", 0.03, 128},
		"spot, taken back":             {"spot", false, cloud.SpotInterrupted, 0, 128},
		"spot, terminated by a person": {"spot", false, cloud.InstanceTerminated, 0.03, 128},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				claim, n := node("n", c.capacityType, time.Now())
				w.create(claim, n)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- w.recorder.Run(ctx) }()
				time.Sleep(125 * time.Second)
				last := claim.DeepCopy()
				if c.reason != "" {
					last.DeletionTimestamp = &metav1.Time{Time: time.Now()}
					last.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, string(c.reason), "EC2's notice")
				}
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
				want := (c.usd*c.seconds + volumes*730/744*130) / 3600 // It is January, of 744 hours.
				if got := w.recorded().Total; math.Abs(got-want) > 1e-7 {
					t.Errorf("%.7f USD are recorded, want %.7f for %v s", got, want, c.seconds)
				}
			})
		})
	}
}
