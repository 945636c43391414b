package plan_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// lonely is one pod, or one Deployment, in a world of 900 instance types in three zones, on demand and spot.
func lonely(tb testing.TB, name string) plan.Input {
	tb.Helper()
	for _, x := range mixes() {
		if x.name == name {
			in := world(tb, 900, poolYAML{Name: "default"})
			x.add(newBatch(&in, 1), x.pods)
			return in
		}
	}
	tb.Fatalf("there is no mix %s", name)
	return plan.Input{}
}

// BenchmarkFewPods plans what comes most often: a lone pod or one Deployment, with the catalogue compiled anew and with
// the one that is at hand.
func BenchmarkFewPods(b *testing.B) {
	for _, name := range []string{"lone-pod", "one-deployment"} {
		in := lonely(b, name)
		var maker plan.Maker
		for what, mk := range map[string]func(plan.Input) plan.Plan{"cold": plan.Make, "prepared": maker.Make} {
			b.Run(name+"/"+what, func(b *testing.B) {
				mk(in)
				before := cpu(b)
				for b.Loop() {
					mk(in)
				}
				b.ReportMetric((cpu(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// TestPrepared plans with a catalogue at hand what is planned without, and quicker; another one is noticed.
func TestPrepared(t *testing.T) {
	in := lonely(t, "lone-pod")
	var maker plan.Maker
	measure := func(mk func(plan.Input) plan.Plan) time.Duration {
		best := time.Hour
		for range 5 {
			before := cpu(t)
			for range 4 {
				mk(in)
			}
			best = min(best, cpu(t)-before)
		}
		return best
	}
	if want, got := plan.Make(in), maker.Make(in); !reflect.DeepEqual(got, want) {
		t.Fatalf("with a Maker: %+v, without: %+v", got, want)
	}
	if want, got := plan.Make(in), maker.Make(in); !reflect.DeepEqual(got, want) {
		t.Fatalf("with what the Maker remembers: %+v, without: %+v", got, want)
	}
	if cold, prepared := measure(plan.Make), measure(maker.Make); prepared > cold*9/10 {
		t.Errorf("a lone pod takes %v of CPU with the catalogue at hand, %v without", prepared, cold)
	}
	other := world(t, 30, poolYAML{Name: "default"})
	other.Classes = in.Classes
	if want, got := plan.Make(other), maker.Make(other); !reflect.DeepEqual(got, want) {
		t.Errorf("another catalogue: %+v, without a Maker: %+v", got, want)
	}
	narrow := world(t, 900, poolYAML{Name: "default", Requirements: []string{"karpenter.sh/capacity-type In on-demand"}})
	narrow.Classes, narrow.Catalog.InstanceTypes = in.Classes, in.Catalog.InstanceTypes
	if want, got := plan.Make(narrow), maker.Make(narrow); !reflect.DeepEqual(got, want) {
		t.Errorf("another NodePool: %+v, without a Maker: %+v", got, want)
	}
}
