package aws_test

import (
	"encoding/base64"
	"slices"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// wantFailures fails unless a fleet launched n instances and gave the code as the reason for the others.
func wantFailures(t *testing.T, out *ec2.CreateFleetOutput, n int, code string) {
	t.Helper()
	if got := len(launched(out)); got != n {
		t.Errorf("%d instances were launched, want %d", got, n)
	}
	if !slices.ContainsFunc(out.Errors, func(e ec2types.CreateFleetError) bool { return awssdk.ToString(e.ErrorCode) == code }) {
		t.Errorf("no error is %s: %+v", code, out.Errors)
	}
}

func TestQuota(t *testing.T) {
	server := start(t, nil)
	server.SetQuota(aws.OnDemand, 5)
	server.SetQuota(aws.Spot, 1)
	// A fleet takes what fits: two of two vCPUs each.
	wantFailures(t, createFleet(t, server, fleetInput(t, server, 3, "m5.large")), 2, "VcpuLimitExceeded")
	wantFailures(t, createFleet(t, server, fleetInput(t, server, 1, "m5.large")), 0, "VcpuLimitExceeded")
	wantFailures(t, createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large"), "price-capacity-optimized")), 0, "MaxSpotInstanceCountExceeded")
	server.SetQuota(aws.OnDemand, -1)
	if out := createFleet(t, server, fleetInput(t, server, 3, "m5.large")); len(launched(out)) != 3 {
		t.Errorf("without a quota: %+v", out)
	}
}

func TestNoSpotRole(t *testing.T) {
	server := start(t, nil)
	server.SetSpotRole(false)
	wantFailures(t, createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large"), "price-capacity-optimized")), 0,
		"AuthFailure.ServiceLinkedRoleCreationNotPermitted")
	if out := createFleet(t, server, fleetInput(t, server, 1, "m5.large")); len(launched(out)) != 1 {
		t.Errorf("on demand: %+v", out)
	}
	server.SetSpotRole(true)
	if out := createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large"), "price-capacity-optimized")); len(launched(out)) != 1 {
		t.Errorf("with the role: %+v", out)
	}
}

// A fleet stops at a type that a policy denies. One that comes to another type first launches it.
func TestDeniedType(t *testing.T) {
	server := start(t, nil)
	server.Denied.Set("m5.large")
	out := createFleet(t, server, fleetInput(t, server, 1, "m5.large", "m5.xlarge"))
	wantFailures(t, out, 0, "UnauthorizedOperation")
	if len(out.Errors) != 1 || out.Errors[0].LaunchTemplateAndOverrides.Overrides.InstanceType != "m5.large" {
		t.Errorf("errors %+v", out.Errors)
	}
	server.Denied.Set("m5.xlarge")
	if out := createFleet(t, server, fleetInput(t, server, 1, "m5.large", "m5.xlarge")); len(launched(out)) != 1 {
		t.Errorf("with another type first: %+v", out)
	}
}

func TestNoAddresses(t *testing.T) {
	server := start(t, nil)
	var back []func()
	for _, subnet := range server.Resources().Subnets {
		back = append(back, server.LeaveAddresses(subnet.ID, 1))
	}
	wantFailures(t, createFleet(t, server, fleetInput(t, server, 4, "m5.large")), 3, "InsufficientFreeAddressesInSubnet")
	for _, give := range back {
		give()
	}
	if out := createFleet(t, server, fleetInput(t, server, 4, "m5.large")); len(launched(out)) != 4 {
		t.Errorf("with addresses: %+v", out)
	}
}

func reservations(t *testing.T, client *ec2.Client, filters ...ec2types.Filter) []ec2types.CapacityReservation {
	t.Helper()
	var all []ec2types.CapacityReservation
	pages := ec2.NewDescribeCapacityReservationsPaginator(client, &ec2.DescribeCapacityReservationsInput{Filters: filters, MaxResults: awssdk.Int32(1)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.CapacityReservations...)
	}
	return all
}

func TestCapacityReservations(t *testing.T) {
	server := start(t, remembers)
	client := ec2Client(server)
	zone := server.Resources().Subnets[1].Zone
	id := server.AddCapacityReservation(aws.CapacityReservation{InstanceType: "m5.large", Zone: zone, Total: 2, Tags: map[string]string{"team": "a"}})
	server.AddCapacityReservation(aws.CapacityReservation{InstanceType: "m5.large", Zone: zone, Total: 2, Open: true})
	in := templateInput(t, client, "reserved")
	in.LaunchTemplateData.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationTarget: &ec2types.CapacityReservationTarget{CapacityReservationId: &id},
	}
	if _, err := client.CreateLaunchTemplate(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	fleet := fleetInput(t, server, 3, "m5.large")
	fleet.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = in.LaunchTemplateName
	fleet.LaunchTemplateConfigs[0].Overrides = fleet.LaunchTemplateConfigs[0].Overrides[1:2]
	// Capacity that is reserved is there when all other is gone.
	server.ICE("all", "all", "all", 1e12)
	out := createFleet(t, server, fleet)
	wantFailures(t, out, 2, "ReservationCapacityExceeded")
	if all := reservations(t, client, filter("state", "active")); len(all) != 2 {
		t.Errorf("%d reservations, want 2", len(all))
	}
	used := reservations(t, client, filter("tag:team", "a"))
	if len(used) != 1 || awssdk.ToInt32(used[0].AvailableInstanceCount) != 0 || awssdk.ToInt32(used[0].TotalInstanceCount) != 2 ||
		used[0].InstanceMatchCriteria != "targeted" || used[0].ReservationType != "default" {
		t.Errorf("the reservation is %+v", used)
	}
	reserved := func() string {
		described, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{launched(out)[0]}})
		if err != nil {
			t.Fatal(err)
		}
		m := described.Reservations[0].Instances[0]
		if want := awssdk.ToString(m.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId); want != id {
			t.Errorf("the instance was launched for %q, want %s", want, id)
		}
		return awssdk.ToString(m.CapacityReservationId)
	}
	if got := reserved(); got != id {
		t.Errorf("the instance is in %q, want %s", got, id)
	}
	if err := server.Terminate(launched(out)[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "room in the reservation", func() bool {
		return awssdk.ToInt32(reservations(t, client, filter("tag:team", "a"))[0].AvailableInstanceCount) == 1
	})
	server.CancelCapacityReservation(id)
	if all := reservations(t, client); len(all) != 1 {
		t.Errorf("%d reservations after one was cancelled, want 1", len(all))
	}
	if got := reserved(); got != "" {
		t.Errorf("the instance is in %q, which was cancelled", got)
	}
}

func TestImageReleases(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	old := recommended(t, client)
	server.ReleaseImages("v20260801", "1.46.0")
	next := recommended(t, client)
	if next == old {
		t.Fatalf("%s is still recommended", old)
	}
	byName := func(deprecated bool) []ec2types.Image {
		out, err := client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{
			Filters:           []ec2types.Filter{filter("name", "amazon-eks-node-al2023-x86_64-standard-1.36-*")},
			IncludeDeprecated: awssdk.Bool(deprecated),
		})
		if err != nil {
			t.Fatal(err)
		}
		return out.Images
	}
	if images := byName(false); len(images) != 3 {
		t.Errorf("%d releases, want 3", len(images))
	}
	if err := server.DeprecateImage(old); err != nil {
		t.Fatal(err)
	}
	if images := byName(false); len(images) != 2 {
		t.Errorf("%d releases that are not deprecated, want 2", len(images))
	}
	if images := byName(true); len(images) != 3 {
		t.Errorf("%d releases with those that are deprecated, want 3", len(images))
	}
	if err := server.DeprecateImage("ami-1"); err == nil {
		t.Error("an image that does not exist was deprecated")
	}
}

func TestUserDataAttribute(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	out, err := client.DescribeInstanceAttribute(t.Context(), &ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: "userData"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(awssdk.ToString(out.UserData.Value))
	if err != nil || string(text) != instance(t, server, id).UserData || len(text) == 0 {
		t.Errorf("user data is %q (%v)", text, err)
	}
	_, err = client.DescribeInstanceAttribute(t.Context(), &ec2.DescribeInstanceAttributeInput{InstanceId: awssdk.String("i-0"), Attribute: "userData"})
	wantCode(t, err, "InvalidInstanceID.NotFound")
}
