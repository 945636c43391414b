package aws_test

import (
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// What happens to an account is told over the control API, and seen in what its services answer.
func TestAccountFromOutside(t *testing.T) {
	server := start(t, nil)
	ctx, tell, client := t.Context(), aws.NewClient(server.URL()), ec2Client(server)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	spot := func() *ec2.CreateFleetInput {
		return asSpot(fleetInput(t, server, 1, "m5.large"), "price-capacity-optimized")
	}

	do(tell.SetQuota(ctx, aws.OnDemand, 2))
	wantFailures(t, createFleet(t, server, fleetInput(t, server, 2, "m5.large")), 1, "VcpuLimitExceeded")
	do(tell.SetQuota(ctx, aws.OnDemand, -1))

	do(tell.SetSpotRole(ctx, false))
	wantFailures(t, createFleet(t, server, spot()), 0, "AuthFailure.ServiceLinkedRoleCreationNotPermitted")
	do(tell.SetSpotRole(ctx, true))
	if out := createFleet(t, server, spot()); len(launched(out)) != 1 {
		t.Errorf("with the role: %+v", out)
	}

	old := recommended(t, client)
	do(tell.ReleaseImages(ctx, "", ""))
	if recommended(t, client) == old {
		t.Errorf("%s is still recommended", old)
	}
	do(tell.DeprecateImage(ctx, old))

	id, err := tell.Reserve(ctx, reserve("m5.large", server.Resources().Subnets[0].Zone, 2, func(r *aws.CapacityReservation) { r.Tags = map[string]string{"team": "a"} }))
	do(err)
	found, err := client.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{Filters: []ec2types.Filter{filter("tag:team", "a")}})
	if err != nil || len(found.CapacityReservations) != 1 || awssdk.ToString(found.CapacityReservations[0].CapacityReservationId) != id {
		t.Errorf("reservation %s: %+v, %v", id, found, err)
	}
	do(tell.CancelReservation(ctx, id))

	if n, err := tell.DeleteTemplates(ctx); err != nil || n == 0 {
		t.Errorf("%d launch templates deleted, %v", n, err)
	}
	if left, err := client.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{}); err != nil || len(left.LaunchTemplates) > 0 {
		t.Errorf("%d launch templates are left, %v", len(left.LaunchTemplates), err)
	}

	for what, err := range map[string]error{
		"capacityType": tell.SetQuota(ctx, "free", 1), "instanceType": second(tell.Reserve(ctx, reserve("m5.lagre", "us-east-1a", 1, nil))),
		"zone": second(tell.Reserve(ctx, reserve("m5.large", "us-east-1z", 1, nil))), "count": second(tell.Reserve(ctx, reserve("m5.large", "us-east-1a", 0, nil))),
		"reservationType": second(tell.Reserve(ctx, reserve("m5.large", "us-east-1a", 1, func(r *aws.CapacityReservation) { r.Type = "block" }))),
		"ends":            second(tell.Reserve(ctx, reserve("m5.large", "us-east-1a", 1, func(r *aws.CapacityReservation) { r.Type = "capacity-block" }))),
		"interruptible": second(tell.Reserve(ctx, reserve("m5.large", "us-east-1a", 1, func(r *aws.CapacityReservation) {
			r.Type, r.Interruptible = "capacity-block", true
		}))),
		"reservation": tell.CancelReservation(ctx, "cr-1"), "does not exist": tell.DeprecateImage(ctx, "ami-1"),
		"is not positive": tell.SetPrice(ctx, "all", 0), "no instance type": tell.SetPrice(ctx, "m5.lagre", 2), "field for": tell.SetTagsAfter(ctx, -1),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error with %q", err, what)
		}
	}
}

func second(_ string, err error) error { return err }

// prices are what EC2 and the Price List API ask for an m5.large.
func prices(t *testing.T, server *aws.Server) (spot, onDemand string) {
	t.Helper()
	now := time.Now()
	history, err := ec2Client(server).DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []ec2types.InstanceType{"m5.large"}, AvailabilityZone: awssdk.String("us-east-1a"), StartTime: &now,
	})
	if err != nil || len(history.SpotPriceHistory) == 0 {
		t.Fatalf("spot prices: %+v, %v", history, err)
	}
	list, err := pricing.NewFromConfig(config(server)).GetProducts(t.Context(), &pricing.GetProductsInput{
		ServiceCode: awssdk.String("AmazonEC2"), Filters: []pricingtypes.Filter{
			{Field: awssdk.String("instanceType"), Value: awssdk.String("m5.large"), Type: pricingtypes.FilterTypeTermMatch},
			{Field: awssdk.String("tenancy"), Value: awssdk.String("Shared"), Type: pricingtypes.FilterTypeTermMatch},
		},
	})
	if err != nil || len(list.PriceList) != 1 {
		t.Fatalf("price list: %+v, %v", list, err)
	}
	return awssdk.ToString(history.SpotPriceHistory[0].SpotPrice), list.PriceList[0]
}

func TestPricesFromOutside(t *testing.T) {
	server := start(t, nil)
	spot, onDemand := prices(t, server)
	if err := aws.NewClient(server.URL()).SetPrice(t.Context(), "m5.large", 2); err != nil {
		t.Fatal(err)
	}
	dearSpot, dear := prices(t, server)
	if dearSpot == spot || dear == onDemand || !strings.Contains(onDemand, `"USD":"0.0960000000"`) || !strings.Contains(dear, `"USD":"0.1920000000"`) {
		t.Errorf("spot %s, then %s; on demand %s, then %s", spot, dearSpot, onDemand, dear)
	}
}

// Tags that are told late are missing at first, whatever they were when the server began.
func TestLateTagsFromOutside(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.VisibleAfter = -1 })
	client, tell := ec2Client(server), aws.NewClient(server.URL())
	if err := tell.SetTagsAfter(t.Context(), 1000*time.Hour); err != nil {
		t.Fatal(err)
	}
	id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	tag := func() {
		t.Helper()
		_, err := client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: awssdk.String("a"), Value: awssdk.String("b")}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	told := func() bool {
		t.Helper()
		out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err != nil || len(out.Reservations) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		for _, tag := range out.Reservations[0].Instances[0].Tags {
			if awssdk.ToString(tag.Key) == "a" {
				return true
			}
		}
		return false
	}
	tag()
	if told() {
		t.Error("a tag is told at once")
	}
	if err := tell.SetTagsAfter(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	tag()
	if !told() {
		t.Error("a tag is not told at once although it should be again")
	}
}

func reserve(instanceType, zone string, n int, change func(*aws.CapacityReservation)) aws.CapacityReservation {
	r := aws.CapacityReservation{InstanceType: instanceType, Zone: zone, Total: n}
	if change != nil {
		change(&r)
	}
	return r
}
