package day_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/day"
)

// The fleet of a Deployment that gets a third of its replicas shrinks within two minutes, with hardly more evictions than the nodes that are left make
// necessary, to a bill near that of all pods packed from scratch.
func TestScaleIn(t *testing.T) {
	for seed := range uint64(2) {
		out, err := day.ScaleIn{Seed: seed, From: 300, To: 105, Minutes: 4}.Replay(t.Context())
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
		if float64(last.Evictions) > 1.4*float64(out.Fewest) {
			t.Errorf("seed %d: %d evictions, %d are necessary for so few nodes", seed, last.Evictions, out.Fewest)
		}
	}
}
