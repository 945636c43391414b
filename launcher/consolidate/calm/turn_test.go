package calm_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
)

// However few nodes a scheduler has time for, all of them are looked at in turn, and once there is time for all, no decision leaves one out.
func TestTurns(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100} {
		var nodes []types.UID
		for i := range n {
			nodes = append(nodes, types.UID(fmt.Sprint(i)))
		}
		for most := 1; most <= n; most += 1 + most/2 {
			now, turn, looks := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), calm.Turn(0), calm.Looks{}
			decide := func(most int) (waited int) {
				seen, wait := map[types.UID]bool{}, turn.Wait(looks, nodes)
				asked := n - len(wait)
				for _, uid := range nodes {
					seen[uid] = asked <= most
				}
				for _, uid := range wait {
					seen[uid] = false
				}
				turn, now = turn.After(asked, len(wait), asked > most), now.Add(time.Second)
				looks, _ = looks.At(now, seen)
				return len(wait)
			}
			began := now
			// A turn is at least half of what there is time for, and at most half of the decisions run out of time.
			for range 10 + 4*n/most {
				decide(most)
			}
			for uid, looked := range looks {
				if n > most && !looked.After(began.Add(time.Second)) {
					t.Errorf("of %d nodes with time for %d, %s was looked at %s, the decisions began %s", n, most, uid, looked, began)
				}
			}
			for range 40 {
				decide(n)
			}
			if waited := decide(n); waited > 0 {
				t.Errorf("there is time for all %d nodes, and %d wait", n, waited)
			}
		}
	}
}
