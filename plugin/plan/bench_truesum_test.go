package plan_test

import (
	"maps"
	"slices"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// builtin returns the instance types of the built-in catalog with what their nodes cost beside the instance, on demand and on spot at a third of that.
func builtin(tb testing.TB) []catalog.InstanceType {
	tb.Helper()
	m, err := market.Read(market.Files{})
	if err != nil {
		tb.Fatal(err)
	}
	m.Zones, m.Spot = []string{"us-east-1a", "us-east-1b", "us-east-1c"}, map[string]map[string]float64{}
	for i, zone := range m.Zones {
		m.Spot[zone] = map[string]float64{}
		for name, usd := range m.OnDemand {
			m.Spot[zone][name] = usd * (0.30 + 0.03*float64(i))
		}
	}
	pool := &karpv1.NodePool{}
	pool.Name, pool.Spec.Template.Spec.NodeClassRef = "default", &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	state, problems := m.Catalog(tb.Context(), &input.Objects{NodePools: []*karpv1.NodePool{pool}})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return state.InstanceTypes["default"]
}

// listPrices returns the types as if nodes cost nothing but their instances.
func listPrices(types []catalog.InstanceType) []catalog.InstanceType {
	out := slices.Clone(types)
	for i := range out {
		out[i].Offerings = slices.Clone(out[i].Offerings)
		for k := range out[i].Offerings {
			out[i].Offerings[k].Price -= out[i].Charges.Fixed()
		}
		out[i].Charges = catalog.Charges{}
	}
	return out
}

// trueSum returns what the nodes of a plan cost, with their volumes and surplus CPU.
func trueSum(types []catalog.InstanceType, p *plan.Plan) float64 {
	byName, sum := map[string]*catalog.InstanceType{}, 0.0
	for i := range types {
		byName[types[i].Name] = &types[i]
	}
	for i := range p.Claims {
		c := &p.Claims[i]
		of := byName[c.Expected.InstanceType]
		for _, o := range of.Offerings {
			if o.Zone == c.Expected.Zone && o.CapacityType == c.Expected.CapacityType {
				sum += of.CostOf(o.Price, catalog.Declared{}, c.Requests.Cpu().MilliValue()).Total()
			}
		}
	}
	return sum
}

// proofBudget is how much longer than a plan a bound may take, as a multiple.
const proofBudget = 20

// BenchmarkTrueSum plans the mixes by what nodes cost, and by the list prices of instances alone, on an open NodePool of the built-in catalog. Both plans are
// priced by what nodes cost.
func BenchmarkTrueSum(b *testing.B) {
	types := builtin(b)
	for _, x := range mixes() {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				in := x.input(b, x.pods, 1)
				in.Catalog.InstanceTypes = maps.Clone(in.Catalog.InstanceTypes)
				in.Catalog.InstanceTypes["default"] = types
				p := plan.Make(b.Context(), in)
				proof := in
				proof.Options.Budget = proofBudget
				bound := plan.LowerBound(b.Context(), proof, &p)
				kept := bound
				if x.name == "preferences" {
					kept = plan.LowerBoundOfKept(b.Context(), proof, &p)
				}
				in.Catalog.InstanceTypes["default"] = listPrices(types)
				naive := plan.Make(b.Context(), in)
				cost := trueSum(types, &p)
				b.ReportMetric(cost/bound, "cost/bound")
				b.ReportMetric(cost/kept, "cost/bound-of-kept")
				b.ReportMetric(cost, "USD/h")
				b.ReportMetric(float64(len(p.Claims)), "nodes")
				b.ReportMetric(trueSum(types, &naive), "list-USD/h")
				b.ReportMetric(float64(len(naive.Claims)), "list-nodes")
				b.ReportMetric(float64(len(p.Unplaced)), "unplaced")
				if 2*len(p.Claims) > len(naive.Claims) {
					in.Catalog.InstanceTypes["default"] = types
					b.ReportMetric(float64(fewestNodes(b.Context(), in, &p, 1.03*bound)), "fewest-nodes")
				}
			}
		})
	}
}
