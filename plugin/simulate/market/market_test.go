package market

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

const types = `{"InstanceTypes": [
	{"InstanceType": "m5.large", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 8192}, "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}},
	{"InstanceType": "m9.large", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 8192}, "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}},
	{"InstanceType": "broken.large"}
]}`

func problems(list []input.Problem) string {
	var out strings.Builder
	for _, p := range list {
		out.WriteString(p.String() + "\n")
	}
	return out.String()
}

func TestReadNamesWhatIsMissing(t *testing.T) {
	m, err := Read(Files{
		InstanceTypes: []byte(types),
		Prices: []byte(`{"on-demand": {"m5.large": 0.1, "c5.large": -1, "c6i.large": "NaN", "c7i.large": 1e999, "r5.large": {}, "r6i.large": 1e9},
			"spot": {"us-east-1b": {"m5.large": 0.03}, "us-east-1a": {"m5.large": null}, "us-east-1c": 5}, "usage": {"PublicIPv4:InUseAddress": "free"}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `instance type broken.large: ProcessorInfo.SupportedArchitectures: is missing: the type is left out
prices: on-demand.c5.large: must be a number of USD above 0, at most 100000: the type is not offered there
prices: on-demand.c6i.large: must be a number of USD above 0, at most 100000: the type is not offered there
prices: on-demand.c7i.large: must be a number of USD above 0, at most 100000: the type is not offered there
prices: on-demand.r5.large: must be a number of USD above 0, at most 100000: the type is not offered there
prices: on-demand.r6i.large: must be a number of USD above 0, at most 100000: the type is not offered there
prices: spot.us-east-1a.m5.large: must be a number of USD above 0, at most 100000: the type is not offered there
prices: spot.us-east-1c: prices by instance type are expected: there is no spot in the zone
prices: usage.PublicIPv4:InUseAddress: must be a number of USD above 0, at most 100000: the built-in price is used
prices: no price is known of 1 instance type, left out: m9.large
`
	if diff := cmp.Diff(want, problems(m.Problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"us-east-1a", "us-east-1b"}, m.Zones); diff != "" {
		t.Errorf("zones are those of the spot prices (-want +got):\n%s", diff)
	}
	pool := &karpv1.NodePool{}
	pool.Name = "default"
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "nobody"}
	state, found := m.Catalog(t.Context(), &input.Objects{NodePools: []*karpv1.NodePool{pool}})
	if len(found) > 0 {
		t.Errorf("problems of the catalog: %s", problems(found))
	}
	var offers []string
	for _, it := range state.InstanceTypes["nobody"] {
		for _, o := range it.Offerings {
			offers = append(offers, it.Name+" "+o.CapacityType+" "+o.Zone)
		}
		if it.Labels[corev1.LabelTopologyRegion] != "us-east-1" {
			t.Errorf("region of %s: %s", it.Name, it.Labels[corev1.LabelTopologyRegion])
		}
	}
	if diff := cmp.Diff([]string{"m5.large on-demand us-east-1a", "m5.large on-demand us-east-1b", "m5.large spot us-east-1b"}, offers); diff != "" {
		t.Errorf("offerings (-want +got):\n%s", diff)
	}
}

func TestBuiltin(t *testing.T) {
	m, err := Read(Files{})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Types) < 400 || len(m.OnDemand) != len(m.Types) || len(m.Spot) > 0 || len(m.Zones) > 0 || len(m.Notes) != 3 {
		t.Errorf("%d types, %d prices, %d spot zones, zones %v, notes %v", len(m.Types), len(m.OnDemand), len(m.Spot), m.Zones, m.Notes)
	}
}

// Where no file tells the zones, those of the EC2NodeClasses' subnets and of the nodes are taken.
func TestZonesOfObjects(t *testing.T) {
	node := &corev1.Node{}
	node.Labels = map[string]string{corev1.LabelTopologyZone: "eu-west-1b"}
	class := &awsv1.EC2NodeClass{}
	class.Status.Subnets = []awsv1.Subnet{{Zone: "eu-west-1c"}, {Zone: "eu-west-1b"}}
	for _, tc := range []struct {
		market  Market
		objects input.Objects
		want    []string
	}{
		{Market{}, input.Objects{}, []string{"us-east-1a", "us-east-1b", "us-east-1c"}},
		{Market{}, input.Objects{Nodes: []*corev1.Node{node, {}}}, []string{"eu-west-1b"}},
		{Market{}, input.Objects{Nodes: []*corev1.Node{node}, NodeClasses: []*awsv1.EC2NodeClass{class}}, []string{"eu-west-1b", "eu-west-1c"}},
		{Market{Zones: []string{"z"}}, input.Objects{Nodes: []*corev1.Node{node}}, []string{"z"}},
	} {
		if diff := cmp.Diff(tc.want, tc.market.zones(&tc.objects)); diff != "" {
			t.Errorf("zones (-want +got):\n%s", diff)
		}
	}
}

func TestRegion(t *testing.T) {
	for zone, want := range map[string]string{"us-east-1a": "us-east-1", "us-gov-west-1b": "us-gov-west-1", "us-west-2-lax-1a": "us-west-2", "zone": "zone"} {
		if got := region(zone); got != want {
			t.Errorf("region of %s: %s, want %s", zone, got, want)
		}
	}
}

// What nodes use beside their instances has the prices of the file, and the built-in ones where it has none or an impossible one.
func TestUsagePrices(t *testing.T) {
	m, err := Read(Files{Prices: []byte(`{"on-demand": {"m5.large": 0.1}, "usage": {"EBS:VolumeUsage.gp3": 0.1, "EUC1-CPUCredits:t3": 0.06, "EBS:VolumeUsage.gp2": -1, "EBS:VolumeUsage.gp9": 1}}`)})
	if err != nil {
		t.Fatal(err)
	}
	got := problems(m.Problems)
	for _, want := range []string{
		"prices: usage.EBS:VolumeUsage.gp2: must be a number of USD above 0, at most 100000: the built-in price is used\n",
		"prices: usage.EBS:VolumeUsage.gp9: is not known: one of CPUCredits:t3, ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("problems:\n%s\nwant %q", got, want)
		}
	}
	want := catalog.BuiltinRates()
	gp3 := want.Volumes["gp3"]
	gp3.GiB = 0.1
	want.Volumes["gp3"], want.SurplusCPU["t3"] = gp3, 0.06
	if !m.Rates.Equal(want) {
		t.Errorf("rates %+v, want %+v", m.Rates, want)
	}
	pool := &karpv1.NodePool{}
	pool.Name = "default"
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "nobody"}
	state, _ := m.Catalog(t.Context(), &input.Objects{NodePools: []*karpv1.NodePool{pool}})
	for _, it := range state.InstanceTypes["nobody"] {
		if it.Charges.Volumes != catalog.Micro(20*0.1/catalog.HoursPerMonth) {
			t.Errorf("%s: %+v, want 20 GiB at 0.1 USD per month", it.Name, it.Charges)
		}
	}
}

// NodePools of dedicated tenancy are planned at the prices of the file, others at those of shared tenancy.
func TestDedicatedPrices(t *testing.T) {
	m, err := Read(Files{InstanceTypes: []byte(types), Prices: []byte(`{"on-demand": {"m5.large": 0.1, "m9.large": 0.1}, "dedicated": {"m5.large": 0.11}}`)})
	if err != nil {
		t.Fatal(err)
	}
	objects := &input.Objects{}
	for _, name := range []string{"shared", "dedicated"} {
		pool := &karpv1.NodePool{}
		pool.Name = name
		pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
		pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: catalog.LabelInstanceTenancy, Operator: "In", Values: []string{name}}}
		if name == "shared" {
			pool.Spec.Template.Spec.Requirements = nil
		}
		objects.NodePools = append(objects.NodePools, pool)
	}
	state, _ := m.Catalog(t.Context(), objects)
	for pool, want := range map[string]float64{"shared": 0.1, "dedicated": 0.11} {
		list := state.TypesOf(pool)
		if price := list[0].Offerings[0].Price - list[0].Charges.Fixed(); list[0].Name != "m5.large" || price < want-1e-9 || price > want+1e-9 {
			t.Errorf("NodePool %s buys %s at %v, want %v", pool, list[0].Name, price, want)
		}
	}
}
