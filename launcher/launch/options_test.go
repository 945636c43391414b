package launch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
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
			failed := map[cloud.Option]string{}
			for _, o := range c.failed {
				failed[o] = "InsufficientInstanceCapacity"
			}
			options, err := Options(claim, types, failed)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range options {
				got = append(got, fmt.Sprint(o.InstanceType, " ", o.Zone, " ", o.CapacityType))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOptionsOfAClaimThatCannotBeRead(t *testing.T) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1"}}
	claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "cores", Operator: "Gt", Values: []string{"many"}}}
	if _, err := Options(claim, nil, nil); err == nil || !strings.Contains(err.Error(), "default-1") {
		t.Errorf("error %v", err)
	}
}

// Claims share a call where EC2 could not tell them apart; what pods ask for it never hears of.
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
		claim("b", nil),
	}
	var got []string
	for _, group := range groups(claims) {
		var names []string
		for _, c := range group {
			names = append(names, c.Name)
		}
		got = append(got, strings.Join(names, " "))
	}
	if diff := cmp.Diff([]string{"a b c", "attempt", "label", "taint", "types", "zone"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestExplain(t *testing.T) {
	failed := map[cloud.Option]string{}
	for i := range 7 {
		failed[cloud.Option{InstanceType: fmt.Sprintf("m%d.large", i), Zone: "a", CapacityType: "spot"}] = "ICE"
	}
	got := explain(failed)
	if !strings.HasPrefix(got, "m0.large spot in a: ICE; ") || !strings.HasSuffix(got, "; and 2 more") {
		t.Errorf("%q", got)
	}
	if got := explain(nil); !strings.Contains(got, "none of its instance types") {
		t.Errorf("%q", got)
	}
}
