package aws

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// quiet returns a Cloud without an endpoint, with two instance types.
func quiet(tb testing.TB, change ...func(*Config)) *Cloud {
	tb.Helper()
	cfg := Config{AWS: awssdk.Config{Region: "us-east-1"}, ClusterName: "prod"}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	manyTypes(c, 2)
	return c
}

// While nothing changes the answer is the same list; a change of any input makes a new one.
func TestInstanceTypesAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, class := quiet(t), nodeClass()
		ask := func() *catalog.InstanceType {
			t.Helper()
			list, err := c.InstanceTypes(t.Context(), class)
			if err != nil || len(list) == 0 {
				t.Fatalf("%d types, %v", len(list), err)
			}
			return &list[0]
		}
		before := ask()
		again := func(what string, fresh bool) {
			t.Helper()
			next := ask()
			if (next != before) != fresh {
				t.Errorf("%s: a new answer %v, want %v", what, next != before, fresh)
			}
			before = next
		}
		again("nothing", false)
		class.Labels = map[string]string{"a": "b"}
		again("a label of the class", false)
		class.Spec.Kubelet = nil
		class.Status.Subnets[2].ZoneID = "use1-z"
		again("subnets", true)
		class.Status.AMIs[0].ID = "ami-2"
		again("AMIs", true)
		class.Annotations = map[string]string{catalog.LearnedAnnotation: "{}"}
		again("what nodes report", true)
		c.known.update(func(m *market) { m.onDemand = maps.Clone(m.onDemand); m.onDemand["m0g.1xlarge"] = 7 })
		again("prices", true)
		c.remember([]fleetFailure{interrupted(cloud.Option{InstanceType: before.Name, Zone: "us-east-1a", CapacityType: "spot"})})
		again("a stock-out", true)
		if before.Offerings[2].Available {
			t.Errorf("after the stock-out: %+v", before.Offerings)
		}
		time.Sleep(c.cfg.Periods.Unavailable - time.Second)
		again("time before the end of the stock-out", false)
		time.Sleep(time.Second)
		again("the end of the stock-out", true)
		if !before.Offerings[2].Available {
			t.Errorf("after its end: %+v", before.Offerings)
		}
	})
}

// What nodes report can be as large as all else of a class together: it is not encoded for an answer.
func TestReportsAreNotEncoded(t *testing.T) {
	c, class := quiet(t), nodeClass()
	encoded := func() int {
		t.Helper()
		if _, err := c.InstanceTypes(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		key := c.offers.by[class.Name].follows
		return len(key.status) + len(key.shapes.settings)
	}
	before := encoded()
	class.Annotations = map[string]string{catalog.LearnedAnnotation: strings.Repeat(" ", 1<<17)}
	if after := encoded(); before == 0 || after != before {
		t.Errorf("%d bytes of the class are encoded, want %d as without reports", after, before)
	}
}

// Only the offering gauges that changed are written, and no series remains for an offering that no class has.
func TestOfferingGauges(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	c, a, b := quiet(t, func(c *Config) { c.Metrics = registry }), nodeClass(), nodeClass()
	b.Name, b.Status.Subnets = "other", b.Status.Subnets[2:]
	ask := func() {
		t.Helper()
		for _, class := range []string{"a", "b"} {
			of := a
			if class == "b" {
				of = b
			}
			if _, err := c.InstanceTypes(t.Context(), of); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func(want int) {
		t.Helper()
		if n := testutil.CollectAndCount(c.metrics.price); n != want || testutil.CollectAndCount(c.metrics.available) != want {
			t.Errorf("%d series, want %d", n, want)
		}
	}
	ask()
	count(8)
	of := func(zone string) prometheus.Gauge {
		return c.metrics.price.WithLabelValues("m0g.0xlarge", "spot", zone)
	}
	of("us-east-1a").Set(99) // A second write of the series would change this value.
	c.remember([]fleetFailure{interrupted(cloud.Option{InstanceType: "m0g.0xlarge", Zone: "us-east-1b", CapacityType: "spot"})})
	ask()
	if got := testutil.ToFloat64(of("us-east-1a")); got != 99 {
		t.Errorf("an offering that did not change was written: %v", got)
	}
	if got := testutil.ToFloat64(c.metrics.available.WithLabelValues("m0g.0xlarge", "spot", "us-east-1b")); got != 0 {
		t.Errorf("available %v after a stock-out", got)
	}
	a.Status.Subnets = a.Status.Subnets[:1]
	ask() // Zone b stays: the other class has it.
	count(8)
	c.metrics.offerings(c.offers.forget(b.Name))
	count(4)
}

func TestChangeOf(t *testing.T) {
	offer := func(zone string, price float64) catalog.Offering {
		return catalog.Offering{Zone: zone, CapacityType: "spot", Price: price, Available: true}
	}
	before := []catalog.InstanceType{
		{Name: "a", Offerings: []catalog.Offering{offer("1", 1), offer("2", 1)}}, {Name: "b", Offerings: []catalog.Offering{offer("1", 1)}},
	}
	after := []catalog.InstanceType{
		{Name: "a", Offerings: []catalog.Offering{offer("1", 2)}}, {Name: "c", Offerings: []catalog.Offering{offer("1", 1)}},
	}
	want := offersChange{
		set:  []namedOffering{{"a", offer("1", 2)}, {"c", offer("1", 1)}},
		gone: []offeringKey{{"spot", "a", "2"}, {"spot", "b", "1"}},
	}
	if diff := cmp.Diff(want, changeOf(before, after), cmp.AllowUnexported(offersChange{}, namedOffering{}, offeringKey{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if same := changeOf(after, after); same.set != nil || same.gone != nil {
		t.Errorf("no change gives %+v", same)
	}
}
