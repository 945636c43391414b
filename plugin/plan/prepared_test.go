package plan_test

import (
	"context"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/cputime"
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
		two := in
		second := in.Catalog.NodePools["default"]
		second.Name, second.NodeClass, second.Labels = "second", "second", map[string]string{karpv1.NodePoolLabelKey: "second"}
		two.Catalog.NodePools = map[string]catalog.NodePool{"default": in.Catalog.NodePools["default"], "second": second}
		two.Catalog.InstanceTypes = map[string][]catalog.InstanceType{
			"default": in.Catalog.InstanceTypes["default"], "second": slices.Clone(in.Catalog.InstanceTypes["default"]),
		}
		b.Run(name+"/two-classes", func(b *testing.B) {
			maker.Make(b.Context(), two)
			before := cputime.Used()
			for b.Loop() {
				maker.Make(b.Context(), two)
			}
			b.ReportMetric((cputime.Used()-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
		for what, mk := range map[string]func(context.Context, plan.Input) plan.Plan{"cold": plan.Make, "prepared": maker.Make} {
			b.Run(name+"/"+what, func(b *testing.B) {
				mk(b.Context(), in)
				before := cputime.Used()
				for b.Loop() {
					mk(b.Context(), in)
				}
				b.ReportMetric((cputime.Used()-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// TestPrepared plans with a catalogue at hand what is planned without, and quicker; another one is noticed.
func TestPrepared(t *testing.T) {
	in := lonely(t, "lone-pod")
	var maker plan.Maker
	measure := func(mk func(context.Context, plan.Input) plan.Plan) time.Duration {
		best := time.Hour
		for range 5 {
			before := cputime.Used()
			for range 4 {
				mk(t.Context(), in)
			}
			best = min(best, cputime.Used()-before)
		}
		return best
	}
	if want, got := plan.Make(t.Context(), in), maker.Make(t.Context(), in); !reflect.DeepEqual(got, want) {
		t.Fatalf("with a Maker: %+v, without: %+v", got, want)
	}
	if want, got := plan.Make(t.Context(), in), maker.Make(t.Context(), in); !reflect.DeepEqual(got, want) {
		t.Fatalf("with what the Maker remembers: %+v, without: %+v", got, want)
	}
	if cold, prepared := measure(plan.Make), measure(maker.Make); prepared > cold*9/10 {
		t.Errorf("a lone pod takes %v of CPU with the catalogue at hand, %v without", prepared, cold)
	}
	other := world(t, 30, poolYAML{Name: "default"})
	other.Classes = in.Classes
	if want, got := plan.Make(t.Context(), other), maker.Make(t.Context(), other); !reflect.DeepEqual(got, want) {
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
	if was, got := maker.Make(t.Context(), in).CostPerHour, maker.Make(t.Context(), dear).CostPerHour; math.Abs(got-2*was) > 1e-9 {
		t.Errorf("at twice the prices the bill is %f, it was %f: another catalogue is taken for the one at hand", got, was)
	}
	narrow := world(t, 900, poolYAML{Name: "default", Requirements: []string{"karpenter.sh/capacity-type In on-demand"}})
	narrow.Classes, narrow.Catalog.InstanceTypes = in.Classes, in.Catalog.InstanceTypes
	if want, got := plan.Make(t.Context(), narrow), maker.Make(t.Context(), narrow); !reflect.DeepEqual(got, want) {
		t.Errorf("another NodePool: %+v, without a Maker: %+v", got, want)
	}
}

// needy is the input with the pod asking for a share of one more resource.
func needy(in plan.Input, resource corev1.ResourceName) plan.Input {
	in.Classes = slices.Clone(in.Classes)
	pod := in.Classes[0].Pod.DeepCopy()
	pod.Spec.Containers[0].Resources.Requests[resource] = apiresource.MustParse("1")
	in.Classes[0].Key, in.Classes[0].Pod = in.Classes[0].Key+string(resource), pod
	return in
}

// TestPreparedForSeveral plans pods that ask for this and that by turns, for NodePools of two EC2NodeClasses: each plan is as
// without a Maker, and quicker from its second time on, until the prices change.
func TestPreparedForSeveral(t *testing.T) {
	in := lonely(t, "lone-pod")
	pool := in.Catalog.NodePools["default"]
	pool.Name, pool.NodeClass, pool.Labels = "other", "other", map[string]string{karpv1.NodePoolLabelKey: "other"}
	in.Catalog.NodePools = map[string]catalog.NodePool{"default": in.Catalog.NodePools["default"], "other": pool}
	in.Catalog.InstanceTypes = maps.Clone(in.Catalog.InstanceTypes)
	in.Catalog.InstanceTypes["other"] = slices.Clone(in.Catalog.InstanceTypes["default"][:300])
	turns := []plan.Input{in, needy(in, corev1.ResourceEphemeralStorage), needy(in, "nvidia.com/gpu"), needy(in, "vpc.amazonaws.com/pod-eni")}
	var maker plan.Maker
	spend := func(mk func(context.Context, plan.Input) plan.Plan) time.Duration {
		before := cputime.Used()
		for _, turn := range turns {
			mk(t.Context(), turn)
		}
		return cputime.Used() - before
	}
	for range 2 {
		for i, turn := range turns {
			if want, got := plan.Make(t.Context(), turn), maker.Make(t.Context(), turn); !reflect.DeepEqual(got, want) {
				t.Fatalf("turn %d with a Maker: %+v, without: %+v", i, got, want)
			}
		}
	}
	cold, prepared := time.Hour, time.Hour
	for range 6 {
		cold, prepared = min(cold, spend(plan.Make)), min(prepared, spend(maker.Make))
	}
	if prepared > cold*9/10 {
		t.Errorf("four pods by turns take %v of CPU with a Maker, %v without", prepared, cold)
	}
	turns[1].Catalog.InstanceTypes = map[string][]catalog.InstanceType{"default": in.Catalog.InstanceTypes["default"][1:300], "other": nil}
	if want, got := plan.Make(t.Context(), turns[1]), maker.Make(t.Context(), turns[1]); !reflect.DeepEqual(got, want) {
		t.Errorf("another catalogue for a key that is known: %+v, without a Maker: %+v", got, want)
	}
}

// TestWorkGrowsWithTheBatch plans a lone pod and 100 diverse ones beside 1,000: fewer pods are less work.
func TestWorkGrowsWithTheBatch(t *testing.T) {
	all := mixes()
	var maker plan.Maker
	measure := func(name string, n int) time.Duration {
		x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == name })]
		in := x.input(t, n, 1)
		maker.Make(t.Context(), in)
		best := time.Hour
		for range 3 {
			before := cputime.Used()
			maker.Make(t.Context(), in)
			best = min(best, cputime.Used()-before)
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
