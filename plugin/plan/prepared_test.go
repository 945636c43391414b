package plan_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
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
	// The same types in a new list, as the launcher sends them when prices change.
	dear := in
	dear.Catalog.InstanceTypes = map[string][]catalog.InstanceType{"default": slices.Clone(in.Catalog.InstanceTypes["default"])}
	for i := range dear.Catalog.InstanceTypes["default"] {
		it := &dear.Catalog.InstanceTypes["default"][i]
		it.Offerings = slices.Clone(it.Offerings)
		for k := range it.Offerings {
			it.Offerings[k].Price *= 2
		}
	}
	if was, got := maker.Make(in).CostPerHour, maker.Make(dear).CostPerHour; math.Abs(got-2*was) > 1e-9 {
		t.Errorf("at twice the prices the bill is %f, it was %f: another catalogue is taken for the one at hand", got, was)
	}
	narrow := world(t, 900, poolYAML{Name: "default", Requirements: []string{"karpenter.sh/capacity-type In on-demand"}})
	narrow.Classes, narrow.Catalog.InstanceTypes = in.Classes, in.Catalog.InstanceTypes
	if want, got := plan.Make(narrow), maker.Make(narrow); !reflect.DeepEqual(got, want) {
		t.Errorf("another NodePool: %+v, without a Maker: %+v", got, want)
	}
}

// TestWorkGrowsWithTheBatch plans a lone pod and 100 diverse ones beside 1,000: fewer pods are less work.
func TestWorkGrowsWithTheBatch(t *testing.T) {
	all := mixes()
	var maker plan.Maker
	measure := func(name string, n int) time.Duration {
		x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == name })]
		in := x.input(t, n, 1)
		maker.Make(in)
		best := time.Hour
		for range 3 {
			before := cpu(t)
			maker.Make(in)
			best = min(best, cpu(t)-before)
		}
		return best
	}
	thousand := measure("diverse-1000", 1000)
	if hundred := measure("diverse-100", 100); hundred > thousand*9/10 {
		t.Errorf("100 pods take %v of CPU, 1,000 pods %v", hundred, thousand)
	}
	if one := measure("lone-pod", 1); one > thousand/10 {
		t.Errorf("a lone pod takes %v of CPU, 1,000 pods %v", one, thousand)
	}
}
