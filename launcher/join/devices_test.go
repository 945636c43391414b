package join_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/join"
)

// A node is initialized once each driver that its NodeClaim names has published all slices of the latest generation of a pool.
func TestDriversPublished(t *testing.T) {
	slice := func(driver, pool string, generation, count int64) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, Pool: resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count},
		}}
	}
	const waits = `DRADriverPoolsNotPublished: DRA driver "nic" has not published a complete resource pool`
	gpu, nic := slice("gpu", "p", 1, 1), slice("nic", "p", 1, 2)
	for name, c := range map[string]struct {
		drivers string
		slices  []*resourcev1.ResourceSlice
		ignore  bool
		want    string
	}{
		"none named":             {},
		"blanks":                 {drivers: " , "},
		"ignored":                {drivers: "nic", ignore: true},
		"nothing published":      {drivers: "nic", want: waits},
		"another published":      {drivers: "gpu, nic", slices: []*resourcev1.ResourceSlice{gpu}, want: waits},
		"half of a pool":         {drivers: "gpu,nic", slices: []*resourcev1.ResourceSlice{gpu, nic}, want: waits},
		"two halves of pools":    {drivers: "nic", slices: []*resourcev1.ResourceSlice{nic, slice("nic", "q", 1, 2)}, want: waits},
		"half of the latest":     {drivers: "nic", slices: []*resourcev1.ResourceSlice{nic, nic, slice("nic", "p", 2, 2)}, want: waits},
		"all of the latest":      {drivers: "nic", slices: []*resourcev1.ResourceSlice{slice("nic", "p", 2, 1), nic}},
		"both":                   {drivers: "gpu,nic", slices: []*resourcev1.ResourceSlice{nic, gpu, nic}},
		"one of two is complete": {drivers: "nic", slices: []*resourcev1.ResourceSlice{nic, slice("nic", "q", 1, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario()
			s.Settings.IgnoreDRARequests = c.ignore
			s.Claim.Annotations = map[string]string{karpv1.DRADriversAnnotationKey: c.drivers}
			s.claim(map[string]string{"registered": ""})
			s.Node, s.Slices, s.Now = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, c.slices, start().Add(time.Minute)
			s.node(map[string]string{"ready": "true"})
			got := join.Decide(s.Observed)
			text := ""
			if got.Waiting != "" {
				text = got.Waiting + ": " + got.Message
			}
			if text != c.want || got.Initialize != (c.want == "") {
				t.Errorf("waiting %q, initialize %t; want %q", text, got.Initialize, c.want)
			}
		})
	}
}
