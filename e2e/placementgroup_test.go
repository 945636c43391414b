package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// placementGroup creates a placement group and returns its ID.
func placementGroup(t *testing.T, name string, strategy ec2types.PlacementStrategy, partitions *int32) string {
	t.Helper()
	out, err := ec2Client().CreatePlacementGroup(t.Context(), &ec2.CreatePlacementGroupInput{
		GroupName: &name, Strategy: strategy, PartitionCount: partitions,
	})
	if err != nil {
		t.Fatal(err)
	}
	return awssdk.ToString(out.PlacementGroup.GroupId)
}

// awaitCondition waits for a condition of a class with the status.
func (w *world) awaitCondition(class, kind string, status metav1.ConditionStatus) {
	w.t.Helper()
	w.await(w.t, fmt.Sprintf("%s of EC2NodeClass %s to be %s", kind, class, status), func() bool {
		var got awsv1.EC2NodeClass
		if err := w.client.Get(w.t.Context(), keyOf(class), &got); err != nil {
			w.t.Fatal(err)
		}
		c := got.StatusConditions().Get(kind)
		return c != nil && c.Status == status
	})
}

// Nodes of a class with a placement group are launched into it and have its labels; pods choose partitions by node selector and spread over
// them; a pod that does not care gets the partition that EC2 picks; a spread group's eighth node is in another zone.
func TestPlacementGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "placement-group")
	parts := placementGroup(t, "e2e-parts", ec2types.PlacementStrategyPartition, awssdk.Int32(3))
	placementGroup(t, "e2e-apart", ec2types.PlacementStrategySpread, nil)
	w.classOf("parts", func(s *awsv1.EC2NodeClassSpec) { s.PlacementGroupSelector = &awsv1.PlacementGroupSelector{ID: &parts} })
	w.classOf("apart", func(s *awsv1.EC2NodeClassSpec) {
		s.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: awssdk.String("e2e-apart")}
	})
	w.classOf("nowhere", func(s *awsv1.EC2NodeClassSpec) {
		s.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: awssdk.String("e2e-nowhere")}
	})
	for _, class := range []string{"parts", "apart"} {
		w.pool("pg-"+class, func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.NodeClassRef.Name = class
			onlyTypes(p, "m6i.large")
			require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		})
	}
	w.awaitCondition("nowhere", awsv1.ConditionTypePlacementGroupReady, metav1.ConditionFalse)

	labels := map[string]string{"app": "over"}
	w.deployment("over", 3, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
		s.NodeSelector[karpv1.NodePoolLabelKey] = "pg-parts"
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: awsv1.LabelPlacementGroupPartition, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
		}}
	}))
	w.deployment("second", 1, w.podSpec("1500m", "1Gi", func(s *corev1.PodSpec) {
		s.NodeSelector[awsv1.LabelPlacementGroupID], s.NodeSelector[awsv1.LabelPlacementGroupPartition] = parts, "2"
	}))
	w.deployment("apart", 8, w.podSpec("1500m", "1Gi", func(s *corev1.PodSpec) { s.NodeSelector[karpv1.NodePoolLabelKey] = "pg-apart" }))
	w.awaitRunning(12)

	got := map[string][]string{}
	for _, p := range w.pods() {
		node := w.node(p.Object.Spec.NodeName).Object
		app := p.Object.Labels["app"]
		got[app] = append(got[app], node.Labels[awsv1.LabelPlacementGroupPartition])
		for _, i := range instancesOf(t, node.Labels[karpv1.NodePoolLabelKey]) {
			if strings.HasSuffix(node.Spec.ProviderID, awssdk.ToString(i.InstanceId)) &&
				(awssdk.ToString(i.Placement.GroupId) != node.Labels[awsv1.LabelPlacementGroupID] ||
					app != "apart" && fmt.Sprint(awssdk.ToInt32(i.Placement.PartitionNumber)) != node.Labels[awsv1.LabelPlacementGroupPartition]) {
				t.Errorf("pod %s: node %v, instance %+v", p.Object.Name, node.Labels, i.Placement)
			}
		}
	}
	slices.Sort(got["over"])
	if over, second := strings.Join(got["over"], ""), strings.Join(got["second"], ""); over != "123" || second != "2" {
		t.Errorf("partitions %v, want one pod of over in each and second in 2", got)
	}
	zones := map[string]int{}
	for _, i := range instancesOf(t, "pg-apart") {
		zones[awssdk.ToString(i.Placement.AvailabilityZone)]++
	}
	if len(zones) < 2 || slices.ContainsFunc([]int{zones["us-east-1a"], zones["us-east-1b"], zones["us-east-1c"]}, func(n int) bool { return n > 7 }) {
		t.Errorf("nodes of the spread group by zone: %v, want 7 at most in each", zones)
	}

	// Without its placement group the class asks for other nodes than it has. The hash of its spec covers the selector.
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "parts"}}
	if err := w.client.Patch(t.Context(), class, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"placementGroupSelector":null}}`))); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the nodes of the old placement group to have drifted", func() bool {
		return !slices.ContainsFunc(w.claimsOf("pg-parts"), func(c observe.Claim) bool {
			drifted := c.Object.StatusConditions().Get(karpv1.ConditionTypeDrifted)
			return !drifted.IsTrue()
		})
	})
}
