package instancetypes_test

import (
	"math"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
)

func table(t *testing.T, seed int64) *instancetypes.Table {
	t.Helper()
	out, err := instancetypes.New(seed)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func zones() []string { return []string{"us-east-1a", "us-east-1b", "us-east-1c"} }

func TestTableIsWhole(t *testing.T) {
	families, current := map[string]bool{}, map[string]bool{}
	for _, i := range table(t, 1).All() {
		families[i.Family] = true
		if !i.Previous {
			current[i.Family] = true
		}
		checkType(t, i)
	}
	if len(families) < 50 || len(current) < 40 {
		t.Errorf("%d families, %d of the current generation: want 50 and 40", len(families), len(current))
	}
}

func checkType(t *testing.T, i instancetypes.Type) {
	t.Helper()
	if i.VCPUs < 1 || i.Cores < 1 || i.VCPUs%i.Cores != 0 || i.MemoryMiB < 512 || i.Price <= 0 || i.NetworkGbps <= 0 || i.GHz < 2 {
		t.Errorf("%s is not plausible: %+v", i.Name, i)
	}
	if (i.Arch == "arm64") != (i.Manufacturer == "AWS") {
		t.Errorf("%s: a processor of %s with the architecture %s", i.Name, i.Manufacturer, i.Arch)
	}
	if i.ENIs() < 1 || i.Limits.IPv4PerInterface < 1 || i.Limits.IsBareMetal != i.Metal {
		t.Errorf("%s: the VPC limits %+v do not fit", i.Name, i.Limits)
	}
}

// A few that are known by heart, one for each way in which a line of the table can be written.
func TestWellKnownTypes(t *testing.T) {
	known := table(t, 1)
	for _, want := range []struct {
		name         string
		vcpus, cores int
		gib          float64
		price        float64
		accelerators int
		disks, gb    int
	}{
		{"m5.large", 2, 1, 8, 0.096, 0, 0, 0},
		{"m7g.medium", 1, 1, 4, 0.0408, 0, 0, 0},
		{"c6a.48xlarge", 192, 96, 384, 7.344, 0, 0, 0},
		{"r7a.2xlarge", 8, 8, 64, 0.60864, 0, 0, 0},
		{"t3.micro", 2, 1, 1, 0.0104, 0, 0, 0},
		{"m8g.metal-24xl", 96, 96, 384, 4.739328, 0, 0, 0},
		{"m6id.32xlarge", 128, 64, 512, 7.5936, 0, 4, 1900},
		{"g5.12xlarge", 48, 24, 192, 5.672, 4, 1, 3800},
		{"p5.48xlarge", 192, 96, 2048, 55.04, 8, 8, 3800},
		{"inf2.24xlarge", 96, 48, 384, 6.49063, 6, 0, 0},
		{"d3.8xlarge", 32, 16, 256, 3.992, 0, 24, 1980},
		{"x2iedn.metal", 128, 64, 4096, 26.675968, 0, 2, 1900},
	} {
		got, ok := known.Get(want.name)
		if !ok {
			t.Errorf("%s is missing", want.name)
			continue
		}
		if got.VCPUs != want.vcpus || got.Cores != want.cores || got.MemoryMiB != int64(want.gib*1024) ||
			math.Abs(got.Price-want.price) > 1e-6 || got.Accelerators.Count != want.accelerators ||
			got.Disks.Count != want.disks || got.Disks.GB != want.gb {
			t.Errorf("%s is %+v, want %+v", want.name, got, want)
		}
	}
	if _, ok := known.Get("m5.tiny"); ok {
		t.Error("m5.tiny exists")
	}
}

func TestSpotPrices(t *testing.T) {
	market := table(t, 1)
	differ, drift := false, false
	for _, i := range market.All() {
		for _, zone := range zones() {
			for _, at := range []time.Duration{-90 * 24 * time.Hour, 0, time.Hour, 12 * time.Hour, 400 * time.Hour} {
				p := market.SpotPrice(i.Name, zone, at)
				if p <= 0 || p >= i.Price {
					t.Errorf("%s in %s costs %v on the spot market at %v, %v on demand", i.Name, zone, p, at, i.Price)
				}
				drift = drift || p != market.SpotPrice(i.Name, zone, at+3*time.Hour)
			}
		}
		differ = differ || market.SpotPrice(i.Name, "us-east-1a", 0) != market.SpotPrice(i.Name, "us-east-1b", 0)
	}
	if !differ || !drift {
		t.Errorf("spot prices differ by zone: %v, drift with time: %v; want both", differ, drift)
	}
	if got := market.SpotPrice("m5.tiny", "us-east-1a", 0); got != 0 {
		t.Errorf("a type that does not exist costs %v", got)
	}
	same, other := table(t, 1), table(t, 2)
	if a, b := market.SpotPrice("m5.large", "us-east-1a", time.Hour), same.SpotPrice("m5.large", "us-east-1a", time.Hour); a != b {
		t.Errorf("the same seed gives %v and %v", a, b)
	}
	if a, b := market.SpotPrice("m5.large", "us-east-1a", time.Hour), other.SpotPrice("m5.large", "us-east-1a", time.Hour); a == b {
		t.Errorf("another seed gives the same price %v", a)
	}
}

func TestPricesHoldForAStep(t *testing.T) {
	market := table(t, 1)
	start := instancetypes.StepStart(7)
	if got := instancetypes.Step(start); got != 7 {
		t.Fatalf("step 7 starts in step %d", got)
	}
	if a, b := market.SpotPrice("c7g.large", "us-east-1c", start), market.SpotPrice("c7g.large", "us-east-1c", start+time.Minute); a != b {
		t.Errorf("within a step the price changes from %v to %v", a, b)
	}
}

func TestOffers(t *testing.T) {
	for seed := range int64(5) {
		market := table(t, seed)
		holes := 0
		for _, i := range market.All() {
			offered := 0
			for _, zone := range zones() {
				if market.Offered(i.Name, zone) {
					offered++
				}
			}
			if offered < 2 {
				t.Errorf("seed %d: %s is offered in %d zones", seed, i.Name, offered)
			}
			holes += len(zones()) - offered
		}
		if holes == 0 {
			t.Errorf("seed %d: every type is in every zone", seed)
		}
		for _, common := range []string{"m5.large", "c6i.xlarge", "r7g.large", "t3.medium"} {
			for _, zone := range zones() {
				if !market.Offered(common, zone) {
					t.Errorf("seed %d: %s is missing in %s", seed, common, zone)
				}
			}
		}
	}
	if table(t, 1).Offered("m5.tiny", "us-east-1a") {
		t.Error("m5.tiny is offered")
	}
}
