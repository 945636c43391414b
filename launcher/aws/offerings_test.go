package aws

import (
	"fmt"
	"maps"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// manyTypes fills the market with n instance types in two zones.
func manyTypes(c *Cloud, n int) {
	next := market{facts: map[string]catalog.Facts{}, onDemand: onDemandPrices{}, spot: spotPrices{}}
	zones, both := []string{"us-east-1a", "us-east-1b"}, []string{"on-demand", "spot"}
	for i := range n {
		name := fmt.Sprintf("m%dg.%dxlarge", i/20, i%20)
		next.facts[name] = catalog.Facts{Name: name, Arch: "arm64", VCPUs: 4, MemoryMiB: 16384, Zones: zones, CapacityTypes: both}
		next.onDemand[name] = 0.1
		next.spot[name] = map[string]float64{"us-east-1a": 0.03, "us-east-1b": 0.04}
	}
	c.known.set(next)
}

func TestInstanceTypesFollowTheClass(t *testing.T) {
	_, c := newWire(t)
	manyTypes(c, 30)
	class := nodeClass()
	count := func() (types, pods int) {
		t.Helper()
		list, err := c.InstanceTypes(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range list {
			pods += int(it.Allocatable.Pods().Value())
		}
		return len(list), pods
	}
	if types, pods := count(); types != 30 || pods != 30*110 {
		t.Errorf("%d types with %d pods", types, pods)
	}
	class.Spec.Kubelet = nil
	class.Status.Subnets = class.Status.Subnets[2:]
	if list, err := c.InstanceTypes(t.Context(), class); err != nil || len(list[0].Offerings) != 2 {
		t.Errorf("with one zone left: %+v, %v", list[0].Offerings, err)
	}
	class.Status.AMIs[0].Requirements[0].Values = []string{"amd64"}
	if types, _ := count(); types != 0 {
		t.Errorf("%d types of another architecture than the AMI's", types)
	}
	class.Status.AMIs = nil
	if types, _ := count(); types != 0 {
		t.Errorf("%d types without an AMI", types)
	}
}

// A type without a price is not bought.
func TestInstanceTypesNeedPrices(t *testing.T) {
	_, c := newWire(t)
	manyTypes(c, 2)
	c.known.update(func(m *market) {
		m.onDemand = onDemandPrices{"m0g.1xlarge": 0.1}
		m.spot = spotPrices{"m0g.1xlarge": {"us-east-1b": 0.04}}
	})
	list, err := c.InstanceTypes(t.Context(), nodeClass())
	if err != nil || len(list) != 1 || len(list[0].Offerings) != 3 {
		t.Errorf("%+v, %v, want one type: two zones on demand, one of spot", list, err)
	}
}

// A spot price that EC2 would never have is not believed.
func TestSpotPricesAreBelievable(t *testing.T) {
	for _, tc := range []struct{ spot, onDemand, want float64 }{
		{0.03, 0.08, 0.03}, {0.008, 0.08, 0.008}, {0.00001, 0.08, 0.008}, {0.00001, 8, 0.8}, {0.05, 0, 0.05},
	} {
		if got := believable(tc.spot, tc.onDemand); got != tc.want {
			t.Errorf("%v beside %v on demand: %v, want %v", tc.spot, tc.onDemand, got, tc.want)
		}
	}
}

// BenchmarkCatalog reads the instance types of ten EC2NodeClasses, with 900 types in three zones: the first time, after a change of the spot
// prices, after a stock-out, and with no change.
func BenchmarkCatalog(b *testing.B) {
	c, err := New(Config{AWS: awssdk.Config{Region: "us-east-1"}, ClusterName: "prod"})
	if err != nil {
		b.Fatal(err)
	}
	manyTypes(c, 900)
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	c.known.update(func(m *market) {
		for name, f := range m.facts {
			f.Zones = zones
			m.facts[name] = f
			m.spot[name]["us-east-1c"] = 0.05
		}
	})
	classes := make([]*awsv1.EC2NodeClass, 10)
	for i := range classes {
		classes[i] = nodeClass()
		classes[i].Name = fmt.Sprintf("class-%d", i)
		classes[i].Status.Subnets = append(classes[i].Status.Subnets, awsv1.Subnet{ID: "subnet-4", Zone: "us-east-1c", ZoneID: "use1-c"})
	}
	look := func() {
		for _, class := range classes {
			if list, err := c.InstanceTypes(b.Context(), class); err != nil || len(list) != 900 {
				b.Fatalf("%d types, %v", len(list), err)
			}
		}
	}
	for _, of := range []struct {
		name   string
		change func(i int)
	}{
		{"first", func(int) { c.shapes, c.offers = newShapeCache(c.cfg), newOffersCache() }},
		{"prices", func(i int) {
			c.known.update(func(m *market) {
				m.spot = maps.Clone(m.spot)
				for name := range m.spot {
					m.spot[name] = map[string]float64{zones[0]: float64(i), zones[1]: 0.04, zones[2]: 0.05}
				}
			})
		}},
		{"stock-out", func(i int) {
			o := cloud.Option{InstanceType: fmt.Sprintf("m%dg.%dxlarge", i%45, i%20), Zone: zones[i%3], CapacityType: "spot"}
			c.remember([]fleetFailure{interrupted(o)})
		}},
		{"nothing", func(int) {}},
	} {
		b.Run("900types/3zones/10classes/"+of.name, func(b *testing.B) {
			look()
			b.ReportAllocs()
			start, n := cputime.Used(), 0
			for ; b.Loop(); n++ {
				of.change(n)
				look()
			}
			b.ReportMetric(float64((cputime.Used()-start).Milliseconds())/float64(n), "cpu-ms/op")
		})
	}
}
