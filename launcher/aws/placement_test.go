package aws

import (
	"net/http"
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

// Failures inside of a placement group say nothing about the zone: they do not count when one outside of it follows.
func TestFailuresOfAPlacementGroupAreNoStockOut(t *testing.T) {
	now := time.Now()
	u := newUnavailable(3*time.Minute, newSignal())
	for _, name := range []string{"m7g.large", "c7g.large", "r7g.large", "m6g.large", "c6g.large"} {
		f := iced(name)
		f.Option.PlacementGroup = "pg-1"
		u.remember([]fleetFailure{f}, now)
	}
	u.remember([]fleetFailure{iced("r6g.large")}, now)
	if u.of(offeringKey{"spot", "c5.large", zoneA}, now).holds(now) {
		t.Error("the zone counts as sold out")
	}
}

// An instance that EC2 ends at launch in a placement group marks its offering in the group alone. An interruption marks the offering itself.
func TestInstanceThatEC2EndsInAPlacementGroup(t *testing.T) {
	w, c := newWire(t)
	w.on("DescribeInstances", ok("<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceType>m7g.large</instanceType>"+
		"<placement><availabilityZone>us-east-1a</availabilityZone><groupId>pg-1</groupId></placement><launchTime>"+time.Now().UTC().Format(time.RFC3339Nano)+
		"</launchTime><instanceState><name>shutting-down</name></instanceState><stateReason><code>Server.InsufficientInstanceCapacity</code><message>why</message>"+
		"</stateReason></item></instancesSet></item></reservationSet></DescribeInstancesResponse>"))
	if _, err := c.Instances(t.Context(), cloud.Selector{}); err != nil {
		t.Fatal(err)
	}
	now, key := time.Now(), offeringKey{"on-demand", "m7g.large", zoneA}
	if c.without.of(key, now).holds(now) || !c.without.inGroup(key, "pg-1", now).holds(now) {
		t.Error("want the offering to be unavailable in the group alone")
	}
	if o, known := c.seen.offering("i-1"); !known || o.PlacementGroup != "" {
		t.Errorf("the offering of the instance is %+v", o)
	}
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

// So does an instance of a placement group that EC2 does not start.
func TestInstanceThatDoesNotStartInAPlacementGroup(t *testing.T) {
	w, c := newWire(t)
	w.on("StartInstances", refuse(http.StatusBadRequest, "InsufficientInstanceCapacity", "why"))
	refused := c.StartInstances(t.Context(), []cloud.Instance{{ID: "i-1", InstanceType: "m7g.large", Zone: zoneA, CapacityType: "on-demand", PlacementGroupID: "pg-1"}})
	now, key := time.Now(), offeringKey{"on-demand", "m7g.large", zoneA}
	if len(refused) != 1 || c.without.of(key, now).holds(now) || !c.without.inGroup(key, "pg-1", now).holds(now) {
		t.Errorf("want the offering to be unavailable in the group alone: %v", refused)
	}
}
