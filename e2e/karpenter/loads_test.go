package karpenter_test

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/instancetypes"
)

// largestVCPUs is that of the NodePool's instance types.
const largestVCPUs = 16

// constrained creates n pods in seven Deployments: spread over zones, one a node, on arm64, large, on spot, on demand, and plain ones.
func (c *cluster) constrained(n int) {
	self := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	selecting := func(key, value string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.NodeSelector[key] = value }
	}
	left := n
	for _, group := range []struct {
		name string
		n    int
		edit func(*corev1.PodSpec)
	}{
		{"spread", n / 5, func(s *corev1.PodSpec) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: self("spread"),
			}}
		}},
		{"apart", max(n/30, 2), func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: self("apart"),
			}}}}
		}},
		{"arm64", n / 5, selecting(corev1.LabelArchStable, "arm64")},
		{"large", max(n/50, 1), func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7"), corev1.ResourceMemory: resource.MustParse("24Gi")}
		}},
		{"spot", n / 10, selecting(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeSpot)},
		{"on-demand", n / 10, selecting(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand)},
		{"plain", 0, func(*corev1.PodSpec) {}},
	} {
		size := group.n
		if group.name == "plain" {
			size = left
		}
		left -= size
		c.create(c.workload(group.name, int32(size), func(s *corev1.PodSpec) {
			s.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: "default"}
			group.edit(s)
		}))
	}
}

// withoutCheapest takes the capacity of that half of the NodePool's spot offerings that costs least for each vCPU.
func (c *cluster) withoutCheapest() {
	c.t.Helper()
	table, err := instancetypes.New(0) // The sandbox's seed.
	if err != nil {
		c.t.Fatal(err)
	}
	type offering struct{ name, zone string }
	prices := map[offering]float64{}
	families := regexp.MustCompile(`^[cmr][5-9]`)
	for _, i := range table.All() {
		for _, subnet := range c.AWS().Resources().Subnets {
			if families.MatchString(i.Name) && i.VCPUs <= largestVCPUs && table.Offered(i.Name, subnet.Zone) {
				prices[offering{i.Name, subnet.Zone}] = table.SpotPrice(i.Name, subnet.Zone, 0) / float64(i.VCPUs)
			}
		}
	}
	cheapest := slices.SortedFunc(maps.Keys(prices), func(a, b offering) int {
		return cmp.Or(cmp.Compare(prices[a], prices[b]), cmp.Compare(a.name, b.name), cmp.Compare(a.zone, b.zone))
	})
	for _, o := range cheapest[:len(cheapest)/2] {
		c.AWS().ICE(o.name, o.zone, aws.Spot, time.Hour)
	}
	c.t.Logf("%d of %d spot offerings have no capacity", len(cheapest)/2, len(cheapest))
}
