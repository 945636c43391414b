package launch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// typeWith is an instance type on demand, with resources such as "cpu=2 nvidia.com/gpu=1".
func typeWith(name string, price float64, resources string) catalog.InstanceType {
	list := corev1.ResourceList{}
	for field := range strings.FieldsSeq(resources) {
		key, value, _ := strings.Cut(field, "=")
		list[corev1.ResourceName(key)] = resource.MustParse(value)
	}
	_, size, _ := strings.Cut(name, ".")
	return catalog.InstanceType{
		Name: name, Labels: map[string]string{catalog.LabelInstanceSize: size}, Capacity: list, Allocatable: list,
		Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: price, Available: true}},
	}
}

// A claim that slipway did not plan, such as a user's own, gets a node with what it requests. As with Karpenter, bare metal and types with accelerators
// are not launched while others are left, unless the claim has minValues.
func TestUnplannedClaims(t *testing.T) {
	types := []catalog.InstanceType{
		typeWith("t3.nano", 0.005, "cpu=2 memory=256Mi"), typeWith("m7g.large", 0.08, "cpu=2 memory=8Gi"), typeWith("m7g.8xlarge", 1.3, "cpu=32 memory=128Gi"),
		typeWith("m7g.metal", 1.2, "cpu=64 memory=256Gi"), typeWith("inf2.xlarge", 0.07, "cpu=4 memory=16Gi aws.amazon.com/neuron=1"),
		typeWith("g5.xlarge", 1, "cpu=4 memory=16Gi nvidia.com/gpu=1"), typeWith("g5.12xlarge", 5.6, "cpu=48 memory=192Gi nvidia.com/gpu=4"),
	}
	all := "t3.nano inf2.xlarge m7g.large g5.xlarge m7g.metal m7g.8xlarge g5.12xlarge"
	size := requirement(catalog.LabelInstanceSize, "metal")
	few := karpv1.NodeSelectorRequirementWithMinValues{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpExists, MinValues: new(2)}
	tried := cloud.Option{InstanceType: "m7g.8xlarge", Zone: "a", CapacityType: "on-demand"}
	for name, tc := range map[string]struct {
		requests, planned string
		reqs              []karpv1.NodeSelectorRequirementWithMinValues
		failed            []cloud.Option
		want              string
	}{
		"nothing":                       {want: "t3.nano m7g.large m7g.8xlarge"},
		"what is in the requests":       {requests: "cpu=4 memory=20Gi", want: "m7g.8xlarge"},
		"as much as there is":           {requests: "cpu=2 memory=8Gi", want: "m7g.large m7g.8xlarge"},
		"a GPU":                         {requests: "cpu=1 nvidia.com/gpu=1", want: "g5.xlarge g5.12xlarge"},
		"two GPUs":                      {requests: "nvidia.com/gpu=2", want: "g5.12xlarge"},
		"more than any has":             {requests: "cpu=100"},
		"a resource that none has":      {requests: "example.com/dongle=1"},
		"none of such a resource":       {requests: "example.com/dongle=0 cpu=32", want: "m7g.8xlarge"},
		"only bare metal is left":       {requests: "cpu=32", failed: []cloud.Option{tried}, want: "m7g.metal g5.12xlarge"},
		"bare metal, required":          {reqs: []karpv1.NodeSelectorRequirementWithMinValues{size}, want: "m7g.metal"},
		"minValues":                     {reqs: []karpv1.NodeSelectorRequirementWithMinValues{few}, want: all},
		"a plan's types, whatever else": {requests: "cpu=4", planned: "m7g.large,m7g.metal", want: "m7g.large m7g.metal"},
	} {
		claim := &karpv1.NodeClaim{}
		claim.Annotations = map[string]string{catalog.InstanceTypesAnnotation: tc.planned}
		claim.Spec.Resources.Requests = typeWith("", 0, tc.requests).Capacity
		claim.Spec.Requirements = tc.reqs
		failed := map[cloud.Option]cloud.OfferingFailure{}
		for _, o := range tc.failed {
			failed[o] = cloud.OfferingFailure{Option: o}
		}
		choice, err := Search{Claim: claim, Types: types, Failed: failed}.Options()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range choice.Options {
			got = append(got, o.InstanceType)
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Reserved capacity is bought before all other, also of a type with accelerators: other types count there only if they are reserved as well.
func TestExoticReservations(t *testing.T) {
	reserved := func(t catalog.InstanceType) catalog.InstanceType {
		t.Offerings = append(t.Offerings, catalog.Offering{Zone: "a", CapacityType: "reserved", Price: 1e-6, Available: true, ReservationID: "cr-" + t.Name})
		return t
	}
	plain, metal := typeWith("m7g.large", 0.08, "cpu=2"), typeWith("m7g.metal", 2.6, "cpu=64")
	for name, tc := range map[string]struct {
		types []catalog.InstanceType
		want  []string
	}{
		"bare metal alone is reserved": {[]catalog.InstanceType{plain, reserved(metal)}, []string{"m7g.metal a reserved", "m7g.large a on-demand"}},
		"both are reserved":            {[]catalog.InstanceType{reserved(plain), reserved(metal)}, []string{"m7g.large a reserved", "m7g.large a on-demand"}},
	} {
		choice, err := Search{Claim: &karpv1.NodeClaim{}, Types: tc.types}.Options()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, named(choice)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
