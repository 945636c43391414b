package delay_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/machines/delay"
)

// The figures that docs may quote: if these change, so does what a benchmark on simulated machines means.
func TestEC2Figures(t *testing.T) {
	cases := []struct {
		name           string
		d              delay.Distribution
		low, p50, high time.Duration
	}{
		{"kubelet's start after launch", delay.EC2().Kubelet, 20 * time.Second, 29 * time.Second, 45 * time.Second},
		{"network after kubelet", delay.EC2().Network, 5 * time.Second, 8500 * time.Millisecond, 13 * time.Second},
		{"container start", delay.EC2().Container, 300 * time.Millisecond, 720 * time.Millisecond, 1500 * time.Millisecond},
		{"pull, 200 MB", delay.EC2().PullMedium, 2 * time.Second, 3800 * time.Millisecond, 7 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var draws []time.Duration
			var sum time.Duration
			for i := range 4000 {
				v := delay.Source{Seed: 1, Machine: fmt.Sprintf("i-%017x", i)}.Draw(c.d, "x")
				draws, sum = append(draws, v), sum+v
			}
			slices.Sort(draws)
			if draws[0] < c.low || draws[len(draws)-1] > c.high {
				t.Errorf("draws from %v to %v, want within %v and %v", draws[0], draws[len(draws)-1], c.low, c.high)
			}
			if !near(draws[len(draws)/2], c.p50, 0.04) {
				t.Errorf("p50 %v, want about %v", draws[len(draws)/2], c.p50)
			}
			if mean := sum / time.Duration(len(draws)); !near(mean, c.d.Mean(), 0.02) {
				t.Errorf("mean %v, want about %v", mean, c.d.Mean())
			}
		})
	}
}

func near(got, want time.Duration, share float64) bool {
	return float64((got - want).Abs()) <= share*float64(want)
}

func TestDrawsDependOnSeedMachineAndPurposeAlone(t *testing.T) {
	d := delay.EC2().Kubelet
	base := delay.Source{Seed: 7, Machine: "i-1"}
	if a, b := base.Draw(d, "boot"), base.Draw(d, "boot"); a != b {
		t.Errorf("the same draw gave %v and %v", a, b)
	}
	for name, other := range map[string]time.Duration{
		"seed":    delay.Source{Seed: 8, Machine: "i-1"}.Draw(d, "boot"),
		"machine": delay.Source{Seed: 7, Machine: "i-2"}.Draw(d, "boot"),
		"purpose": base.Draw(d, "stop"),
	} {
		if other == base.Draw(d, "boot") {
			t.Errorf("another %s gave the same draw", name)
		}
	}
}

func TestSpeedDividesDelays(t *testing.T) {
	d := delay.EC2().Kubelet
	slow := delay.Source{Seed: 7, Machine: "i-1"}
	fast := slow
	fast.Speed = 10
	if got, want := fast.Draw(d, "boot"), slow.Draw(d, "boot")/10; !near(got, want, 1e-6) {
		t.Errorf("at speed 10: %v, want %v", got, want)
	}
}

func TestQuantileOfADegenerateDistribution(t *testing.T) {
	if got := (delay.Distribution{}).Quantile(0.7); got != 0 {
		t.Errorf("got %v", got)
	}
	one := delay.Distribution{Min: time.Second, Mode: time.Second, Max: time.Second}
	if got := one.Quantile(0.7); got != time.Second {
		t.Errorf("got %v", got)
	}
}
