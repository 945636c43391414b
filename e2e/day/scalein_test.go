package day_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/day"
)

// scaleIn replays a Deployment that gets a third of its replicas: its fleet shrinks within two minutes to a bill near that of all pods packed from scratch.
func scaleIn(t *testing.T, seed uint64, alike bool) day.ScaledIn {
	t.Helper()
	out, err := day.ScaleIn{Seed: seed, From: 300, To: 105, Minutes: 4, Alike: alike}.Replay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, m := range out.Minutes {
		fmt.Fprintf(&text, " %.2f USD/h, %d nodes, %d evictions;", m.USDPerHour, m.Nodes, m.Evictions)
	}
	t.Logf("seed %d, at least %.2f USD/h, %d evictions:%s", seed, out.Bound, out.Fewest, text.String())
	second, last := out.Minutes[1], out.Minutes[len(out.Minutes)-1]
	if second.USDPerHour > 1.01*last.USDPerHour {
		t.Errorf("seed %d: %.2f USD/h after two minutes, %.2f at the end", seed, second.USDPerHour, last.USDPerHour)
	}
	if last.USDPerHour > 1.2*out.Bound {
		t.Errorf("seed %d: %.2f USD/h at the end, all pods packed from scratch cost %.2f", seed, last.USDPerHour, out.Bound)
	}
	return out
}

// Where pods end on all nodes alike there are hardly more evictions than the nodes that are left make necessary. Deletion costs leave half of them at most, and no
// higher bill.
func TestScaleIn(t *testing.T) {
	for seed := range uint64(3) {
		alike, costs := scaleIn(t, seed, true), scaleIn(t, seed, false)
		before, after := alike.Minutes[len(alike.Minutes)-1], costs.Minutes[len(costs.Minutes)-1]
		if float64(before.Evictions) > 1.4*float64(alike.Fewest) {
			t.Errorf("seed %d: %d evictions, %d are necessary for so few nodes", seed, before.Evictions, alike.Fewest)
		}
		if 2*after.Evictions > before.Evictions || after.USDPerHour > 1.03*before.USDPerHour {
			t.Errorf("seed %d: %d evictions and %.2f USD/h with deletion costs, %d and %.2f without", seed, after.Evictions, after.USDPerHour, before.Evictions, before.USDPerHour)
		}
	}
}
