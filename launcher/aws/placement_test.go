package aws

import (
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// What EC2 refuses in a placement group says nothing about launches outside of it, and a full spread group concerns all types of its zone.
func TestFailuresOfAPlacementGroup(t *testing.T) {
	now := time.Now()
	u := newUnavailable(time.Minute, newSignal())
	refuse := func(kind, text string) {
		u.remember([]fleetFailure{{OfferingFailure: cloud.OfferingFailure{
			Option: cloud.Option{InstanceType: kind, Zone: zoneA, CapacityType: "on-demand", PlacementGroup: "pg-1"},
			Reason: ec2error.InsufficientInstanceCapacity,
		}, text: text}}, now)
	}
	held := func(kind, zone, group string) bool {
		return u.inGroup(offeringKey{"on-demand", kind, zone}, group, now).holds(now)
	}
	refuse("m5.large", "no capacity")
	if !held("m5.large", zoneA, "pg-1") || held("m5.large", zoneA, "") || held("m5.large", zoneA, "pg-2") || held("c5.large", zoneA, "pg-1") {
		t.Error("a refusal in a placement group counts for that offering in the group alone")
	}
	refuse("m5.large", "You've reached the limit of instances in this spread placement group. A spread placement group can have up to seven instances per Availability Zone.")
	if !held("c5.large", zoneA, "pg-1") || held("c5.large", zoneB, "pg-1") || held("c5.large", zoneA, "") {
		t.Error("a full spread group takes no instance type in that zone")
	}
	u.sold(cloud.Option{InstanceType: "c5.large", Zone: zoneA, CapacityType: "on-demand", PlacementGroup: "pg-1"})
}

// The launch template names the placement group and the partition.
func TestTemplateHasThePlacementGroup(t *testing.T) {
	w, c := newWire(t)
	w.on("CreateFleet", fleet([]string{"i-1"}))
	w.on("DescribePlacementGroups", ok("<DescribePlacementGroupsResponse><placementGroupSet><item><groupId>pg-1</groupId><groupName>near</groupName>"+
		"<state>available</state><strategy>partition</strategy><partitionCount>3</partitionCount></item></placementGroupSet></DescribePlacementGroupsResponse>"))
	in := launchInput("launch-1", 1, option("m7g.large", zoneA, "on-demand"))
	in.Class.Spec.PlacementGroupSelector, in.Partition = &awsv1.PlacementGroupSelector{Name: new("near")}, 2
	if _, err := c.Launch(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"GroupId": "pg-1", "PartitionNumber": "2", "Tenancy": "default"}
	if diff := cmp.Diff(want, given(w.made("CreateLaunchTemplate")[0], "LaunchTemplateData.Placement.")); diff != "" {
		t.Errorf("placement (-want +got):\n%s", diff)
	}
}
