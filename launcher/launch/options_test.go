package launch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

func requirement(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func TestOptions(t *testing.T) {
	offering := func(zone, capacityType string, price float64, available bool) catalog.Offering {
		return catalog.Offering{Zone: zone, CapacityType: capacityType, Price: price, Available: available}
	}
	types := []catalog.InstanceType{
		{Name: "m6g.large", Offerings: []catalog.Offering{offering("a", "spot", 0.03, true), offering("b", "spot", 0.02, true), offering("a", "on-demand", 0.08, true)}},
		{Name: "m7g.large", Offerings: []catalog.Offering{offering("a", "spot", 0.03, true), offering("b", "spot", 0.01, false)}},
	}
	cases := []struct {
		name   string
		names  string
		reqs   []karpv1.NodeSelectorRequirementWithMinValues
		failed []cloud.Option
		want   []string
	}{
		{
			name: "all that is available, cheapest first, the rest by name",
			want: []string{"m6g.large b spot", "m6g.large a spot", "m7g.large a spot", "m6g.large a on-demand"},
		},
		{name: "the types of the plan", names: "m7g.large,m5.large", want: []string{"m7g.large a spot"}},
		{name: "the zone", reqs: []karpv1.NodeSelectorRequirementWithMinValues{requirement(corev1.LabelTopologyZone, "b")}, want: []string{"m6g.large b spot"}},
		{name: "the capacity type", reqs: []karpv1.NodeSelectorRequirementWithMinValues{requirement(karpv1.CapacityTypeLabelKey, "on-demand")}, want: []string{"m6g.large a on-demand"}},
		{name: "the instance type", reqs: []karpv1.NodeSelectorRequirementWithMinValues{requirement(corev1.LabelInstanceTypeStable, "m7g.large")}, want: []string{"m7g.large a spot"}},
		{
			name: "without what failed before, at whatever price", failed: []cloud.Option{{InstanceType: "m6g.large", Zone: "b", CapacityType: "spot"}},
			want: []string{"m6g.large a spot", "m7g.large a spot", "m6g.large a on-demand"},
		},
		{name: "nothing", reqs: []karpv1.NodeSelectorRequirementWithMinValues{requirement(corev1.LabelTopologyZone, "c")}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", Annotations: map[string]string{catalog.InstanceTypesAnnotation: c.names}}}
			claim.Spec.Requirements = c.reqs
			failed := map[cloud.Option]cloud.OfferingFailure{}
			for _, o := range c.failed {
				failed[o] = cloud.OfferingFailure{Option: o, Reason: "InsufficientInstanceCapacity"}
			}
			choice, err := Search{Claim: claim, Types: types, Failed: failed}.Options()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, named(choice)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func named(choice Choice) []string {
	var out []string
	for _, o := range choice.Options {
		out = append(out, fmt.Sprint(o.InstanceType, " ", o.Zone, " ", o.CapacityType))
	}
	return out
}

func TestOptionsOfAClaimThatCannotBeRead(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1"}}
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "cores", Operator: "Gt", Values: []string{"many"}}}
	if _, err := (Search{Claim: claim}).Options(); err == nil || !strings.Contains(err.Error(), "default-1") {
		t.Errorf("error %v", err)
	}
}

// unplanned makes a claim one that slipway did not plan, which requests so much CPU.
func unplanned(cpu string) func(c *karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		delete(c.Annotations, catalog.InstanceTypesAnnotation)
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

// Claims that are equal for EC2 share a call. The pods' requests are not sent to EC2: they matter where they choose among the instance types.
func TestGroups(t *testing.T) {
	claim := func(name string, change func(c *karpv1.NodeClaim)) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"},
			Annotations: map[string]string{catalog.InstanceTypesAnnotation: "m7g.large"},
		}}
		c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{requirement(corev1.LabelTopologyZone, "a")}
		if change != nil {
			change(c)
		}
		return c
	}
	claims := []*karpv1.NodeClaim{
		claim("c", nil),
		claim("a", func(c *karpv1.NodeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			c.Annotations[catalog.PodsAnnotation] = "[]"
		}),
		claim("zone", func(c *karpv1.NodeClaim) { c.Spec.Requirements[0].Values = []string{"b"} }),
		claim("taint", func(c *karpv1.NodeClaim) { c.Spec.Taints = []corev1.Taint{{Key: "x"}} }),
		claim("label", func(c *karpv1.NodeClaim) { c.Labels["team"] = "a" }),
		claim("types", func(c *karpv1.NodeClaim) { c.Annotations[catalog.InstanceTypesAnnotation] = "m7g.xlarge" }),
		claim("attempt", func(c *karpv1.NodeClaim) { c.Annotations[catalog.LaunchAnnotation] = "1" }),
		claim("efa", func(c *karpv1.NodeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{"vpc.amazonaws.com/efa": resource.MustParse("1")}
		}),
		claim("enclaves", func(c *karpv1.NodeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{"eks.amazonaws.com/nip-slots": resource.MustParse("1")}
		}),
		claim("relaxed", func(c *karpv1.NodeClaim) { c.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] = "true" }),
		claim("b", func(c *karpv1.NodeClaim) { c.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] = "false" }),
		claim("unplanned-small", unplanned("1")), claim("unplanned-large", unplanned("16")), claim("unplanned-large-too", unplanned("16")),
	}
	var got []string
	for _, group := range groups(claims) {
		var names []string
		for _, c := range group {
			names = append(names, c.Name)
		}
		got = append(got, strings.Join(names, " "))
	}
	if diff := cmp.Diff([]string{
		"a b c", "attempt", "efa", "enclaves", "label", "relaxed", "taint", "types", "unplanned-large unplanned-large-too", "unplanned-small", "zone",
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A call asks for 1,000 instances at most; what an earlier process asked for at once stays together.
func TestGroupsOfThousands(t *testing.T) {
	var claims []*karpv1.NodeClaim
	for i := range 2500 {
		claims = append(claims, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("default-%04d", i)}})
	}
	var sizes []int
	for _, group := range groups(claims) {
		sizes = append(sizes, len(group))
	}
	if diff := cmp.Diff([]int{1000, 1000, 500}, sizes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, c := range claims {
		c.Annotations = map[string]string{catalog.LaunchAnnotation: "1"}
	}
	if n := len(groups(claims)); n != 1 {
		t.Errorf("an earlier process's call is looked after by %d groups", n)
	}
}

func TestExplain(t *testing.T) {
	since := time.Date(2026, 1, 1, 18, 25, 51, 0, time.UTC)
	failure := func(i int, code ec2error.Code, message string) cloud.OfferingFailure {
		o := cloud.Option{InstanceType: fmt.Sprintf("m%d.large", i), Zone: "a", CapacityType: "on-demand"}
		return cloud.OfferingFailure{Option: o, Reason: code, Condition: code.Reason(), Message: message, Since: since, Attempts: 2}
	}
	var failed []cloud.OfferingFailure
	for i := range 5 {
		failed = append(failed, failure(i, ec2error.VcpuLimitExceeded, "You have requested more vCPU capacity than your limit of 4 allows."))
	}
	if got := reasonOf(failed); got != "VCPULimitExceeded" {
		t.Errorf("one reason is %s", got)
	}
	failed = append(failed, failure(5, ec2error.InsufficientInstanceCapacity, "We currently do not have sufficient capacity"))
	if got := reasonOf(failed); got != "InsufficientCapacity" {
		t.Errorf("two reasons are joined as %s", got)
	}
	refused := refusedOffering(cloud.Option{InstanceType: "g5.xlarge"}, ec2error.Refusal{Code: ec2error.UnauthorizedOperation, Since: since, Attempts: 1})
	if got := reasonOf(refused); got != "InstanceTypeRefused" {
		t.Errorf("a type that EC2 refuses to the class is %s", got)
	}
	if got := explain(refused); !strings.Contains(got, "UnauthorizedOperation in 1 of 1 offerings") || !strings.Contains(got, "allow the instance type in the policy that denies it") {
		t.Errorf("%s", got)
	}
	if got, _ := tooFewValues(errors.New("few"), refused); got != "InstanceTypeRefused" {
		t.Errorf("too few values because of such a type are %s", got)
	}
	got := explain(failed)
	for _, want := range []string{
		"EC2 launched no instance: VcpuLimitExceeded in 5 of 6 offerings (m0.large on-demand in a, ...) since 18:25:51 UTC, attempt 2. InsufficientInstanceCapacity in 1 ",
		". EC2's text: You have requested more vCPU capacity than your limit of 4 allows; We currently do not have sufficient capacity. What to do: ",
		"request a higher vCPU quota L-1216C47A",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if got := explain(nil); !strings.Contains(got, "none of its instance types") {
		t.Errorf("%q", got)
	}
}

// Spot that costs more than on-demand is left out: EC2 would buy it for its spare capacity.
func TestDearSpotIsLeftOut(t *testing.T) {
	of := func(name string, spot, onDemand float64) catalog.InstanceType {
		return catalog.InstanceType{Name: name, Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "spot", Price: spot, Available: true}, {Zone: "a", CapacityType: "on-demand", Price: onDemand, Available: true},
		}}
	}
	choice, err := Search{Claim: &karpv1.NodeClaim{}, Types: []catalog.InstanceType{of("small", 0.03, 0.1), of("big", 0.12, 0.4)}}.Options()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"small a spot", "small a on-demand", "big a on-demand"}, named(choice)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func family(name string, price float64, available bool) catalog.InstanceType {
	letter, _, _ := strings.Cut(name, ".")
	return catalog.InstanceType{
		Name: name, Labels: map[string]string{"karpenter.k8s.aws/instance-family": letter},
		Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: price, Available: available}},
	}
}

func withMinValues(key string, n int) *karpv1.NodeClaim {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1"}}
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: key, Operator: corev1.NodeSelectorOpExists, MinValues: &n}}
	return claim
}

// The 60 cheapest types are all of one family; minValues wants three, and so the cheapest of two more take the places of the
// dearest of the first.
func TestMinValuesAmongTheCheapest(t *testing.T) {
	var types []catalog.InstanceType
	for i := range 70 {
		types = append(types, family(fmt.Sprintf("m7g.%02dxlarge", i), 0.1+float64(i)/1000, true))
	}
	types = append(types, family("c7g.large", 3, true), family("c7g.xlarge", 4, true), family("r7g.large", 5, true))
	choice, err := Search{Claim: withMinValues("karpenter.k8s.aws/instance-family", 3), Types: types}.Options()
	if err != nil {
		t.Fatal(err)
	}
	got := named(choice)
	if len(got) != 60 || got[57] != "m7g.57xlarge a on-demand" || got[58] != "c7g.large a on-demand" || got[59] != "r7g.large a on-demand" {
		t.Errorf("%d options: %v", len(got), got)
	}
}

func TestMinValuesThatAreNotLeft(t *testing.T) {
	types := []catalog.InstanceType{family("m7g.large", 1, true), family("c7g.large", 2, true), family("r7g.large", 3, false)}
	search := Search{Claim: withMinValues(corev1.LabelInstanceTypeStable, 3), Types: types}
	var short *MinValuesError
	if _, err := search.Options(); !errors.As(err, &short) || short.Have != 2 || short.Want != 3 {
		t.Errorf("Strict: %v", err)
	}
	search.BestEffort = true
	choice, err := search.Options()
	if err != nil || !choice.Relaxed || len(choice.Options) != 2 {
		t.Errorf("BestEffort: %+v, %v", choice, err)
	}
	search.Claim = withMinValues(corev1.LabelInstanceTypeStable, 2)
	if choice, err := search.Options(); err != nil || choice.Relaxed {
		t.Errorf("BestEffort with enough: %+v, %v", choice, err)
	}
}

// A launch names the lowest partition that its claim allows, and none if the claim allows all.
func TestPartition(t *testing.T) {
	for name, tc := range map[string]struct {
		requirements []catalog.Requirement
		partitions   int64
		want         int32
	}{
		"no requirement":     {nil, 3, 0},
		"one":                {[]catalog.Requirement{{Key: catalog.LabelPlacementGroupPartition, Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}}}, 3, 2},
		"all":                {[]catalog.Requirement{{Key: catalog.LabelPlacementGroupPartition, Operator: corev1.NodeSelectorOpIn, Values: []string{"1", "2", "3"}}}, 3, 0},
		"some":               {[]catalog.Requirement{{Key: catalog.LabelPlacementGroupPartition, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"1"}}}, 3, 2},
		"no placement group": {[]catalog.Requirement{{Key: catalog.LabelPlacementGroupPartition, Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}}}, 0, 0},
	} {
		reqs, err := catalog.NewRequirements(tc.requirements)
		if err != nil {
			t.Fatal(err)
		}
		if got := partition(reqs, []catalog.InstanceType{{Partitions: tc.partitions}}); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
