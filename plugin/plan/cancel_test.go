package plan_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// accounted counts the pods that the plan places and those that it lists as unplaced.
func accounted(p *plan.Plan) (placed, unplaced int) {
	for i := range p.Claims {
		for _, m := range p.Claims[i].Members {
			placed += len(m.Pods)
		}
	}
	for i := range p.Placements {
		for _, m := range p.Placements[i].Members {
			placed += len(m.Pods)
		}
	}
	for i := range p.Unplaced {
		unplaced += len(p.Unplaced[i].Pods)
	}
	return placed, unplaced
}

// TestCancel ends the context at several points of a plan: it comes back at once, says that it was cut short, and accounts for all pods.
func TestCancel(t *testing.T) {
	const pods = 3000
	for _, name := range []string{"freely", "preferences"} {
		in := world(t, 600, poolYAML{Name: "default"})
		if name == "freely" {
			diverseFreely(newBatch(&in, 1), pods)
		} else {
			preferences(newBatch(&in, 1), pods)
		}
		start, before := time.Now(), cputime.Used()
		plan.Make(t.Context(), in)
		wall, whole := time.Since(start), cputime.Used()-before
		for _, share := range []int{0, 10, 30, 50, 70} {
			t.Run(fmt.Sprintf("%s/%d%%", name, share), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				at := make(chan time.Duration, 1)
				end := func() { cancel(); at <- cputime.Used() }
				if share == 0 {
					end()
				} else {
					time.AfterFunc(wall*time.Duration(share)/100, end)
				}
				p := plan.Make(ctx, in)
				done := cputime.Used()
				if placed, unplaced := accounted(&p); placed+unplaced != pods {
					t.Errorf("%d pods placed and %d not, want %d in sum", placed, unplaced, pods)
				}
				if !p.CutShort {
					if ctx.Err() == nil || share == 70 {
						return // Quicker than before: there was nothing to cancel, or hardly.
					}
					t.Error("not cut short")
				}
				if over := done - <-at; over > whole/5 {
					t.Errorf("cancelled, it took %v of CPU more; whole plans take %v", over, whole)
				}
			})
		}
	}
}
