package aws

import (
	"fmt"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/slipway-k8s/slipway/launcher/catalog"
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

// A type whose price nobody tells is not bought.
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

func BenchmarkInstanceTypes(b *testing.B) {
	for _, n := range []int{100, 800} {
		b.Run(fmt.Sprintf("%dtypes", n), func(b *testing.B) {
			c, err := New(Config{AWS: awssdk.Config{Region: "us-east-1"}, ClusterName: "prod"})
			if err != nil {
				b.Fatal(err)
			}
			manyTypes(c, n)
			class := nodeClass()
			for b.Loop() {
				if _, err := c.InstanceTypes(b.Context(), class); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
