package launch_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/launch"
)

// A claim with fewer values than its minValues ask for fails without a call. Its reason is a lack of capacity, for which the scheduler leaves
// out its offerings, only where EC2 has refused some.
func TestMinValuesNotMet(t *testing.T) {
	inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
		t.Helper()
		atLeast := func(n int) func(*karpv1.NodeClaim) {
			return func(c *karpv1.NodeClaim) {
				c.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpExists, MinValues: &n}}
			}
		}
		w.recordWith(atLeast(3), "default-a")
		w.settle(time.Second)
		w.wantLaunches(0)
		w.ec2.SetCapacity(memory.Offering{InstanceType: "m7g.large"}, 0)
		w.record("default-b")
		w.settle(time.Second)
		w.recordWith(atLeast(2), "default-c")
		w.settle(time.Second)
		w.want(map[string]string{"default-a": "going", "default-b": "m7g.xlarge us-east-1a", "default-c": "going"})
		if len(w.failed) != 2 || w.failed[0] != "default-a MinValuesNotMet: minValues of requirement node.kubernetes.io/instance-type: available are 2 of at least 3" ||
			!strings.HasPrefix(w.failed[1], "default-c InsufficientCapacity: minValues of requirement node.kubernetes.io/instance-type: available are 1 of at least 2: EC2 launched no instance: ") {
			t.Errorf("failed %q", w.failed)
		}
		w.owners()
	})
}

// Zone IDs are values of the offerings, not of the instance type.
func TestMinValuesOfZoneIDs(t *testing.T) {
	it := catalog.InstanceType{Name: "m7g.large", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m7g.large"}}
	for zone, id := range map[string]string{"us-east-1a": "use1-az1", "us-east-1b": "use1-az2"} {
		for _, capacityType := range []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand} {
			it.Offerings = append(it.Offerings, catalog.Offering{Zone: zone, ZoneID: id, CapacityType: capacityType, Price: 0.1, Available: true})
		}
	}
	for n, short := range map[int]bool{2: false, 3: true} {
		claim := &karpv1.NodeClaim{}
		claim.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "topology.k8s.aws/zone-id", Operator: corev1.NodeSelectorOpExists, MinValues: &n}}
		_, err := launch.Search{Claim: claim, Types: []catalog.InstanceType{it}}.Options()
		var lacks *launch.MinValuesError
		if errors.As(err, &lacks) != short || err != nil && !short || short && lacks.Have != 2 {
			t.Errorf("of 2 zone IDs, at least %d: %v", n, err)
		}
	}
}
