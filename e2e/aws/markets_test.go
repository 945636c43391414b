package aws_test

import (
	"errors"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/slipway-k8s/slipway/e2e/aws"
)

// errorCode returns AWS's code of an error; empty for others.
func errorCode(err error) string {
	if refused, ok := errors.AsType[smithy.APIError](err); ok {
		return refused.ErrorCode()
	}
	return ""
}

// marketFleet is a fleet into a reservation, through a launch template with the market type.
func marketFleet(t *testing.T, server *aws.Server, reservation, market, target string) *ec2.CreateFleetInput {
	t.Helper()
	client := ec2Client(server)
	in := templateInput(t, client, "market-"+reservation+market)
	in.LaunchTemplateData.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationPreference: ec2types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &ec2types.CapacityReservationTarget{CapacityReservationId: &reservation},
	}
	if market != "" {
		in.LaunchTemplateData.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: ec2types.MarketType(market)}
	}
	if _, err := client.CreateLaunchTemplate(t.Context(), in); err != nil && errorCode(err) != "InvalidLaunchTemplateName.AlreadyExistsException" {
		t.Fatal(err)
	}
	out := fleetInput(t, server, 1, "m5.large")
	out.OnDemandOptions, out.SpotOptions = nil, nil
	out.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = in.LaunchTemplateName
	out.LaunchTemplateConfigs[0].Overrides = out.LaunchTemplateConfigs[0].Overrides[:1]
	out.TargetCapacitySpecification.DefaultTargetCapacityType = ec2types.DefaultTargetCapacityType(target)
	if target == "reserved-capacity" {
		out.ReservedCapacityOptions = &ec2types.ReservedCapacityOptionsRequest{
			ReservationTypes: []ec2types.FleetReservationType{ec2types.FleetReservationTypeInterruptibleCapacityReservation},
		}
	}
	return out
}

// marketCase is a launch into a reservation with a market type and a target capacity type, and the code with which EC2 refuses it.
type marketCase struct{ reservation, market, target, failure string }

func (tc marketCase) check(t *testing.T, client *ec2.Client, out *ec2.CreateFleetOutput, err error) {
	t.Helper()
	switch {
	case tc.failure == "InvalidFleetConfig":
		if err == nil || errorCode(err) != tc.failure {
			t.Errorf("%+v: %v", tc, err)
		}
	case err != nil:
		t.Errorf("%+v: %v", tc, err)
	case tc.failure != "":
		if len(out.Errors) != 1 || awssdk.ToString(out.Errors[0].ErrorCode) != tc.failure {
			t.Errorf("%+v: %+v", tc, out.Errors)
		}
	case len(out.Instances) != 1:
		t.Errorf("%+v: %+v", tc, out.Errors)
	default:
		described, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: out.Instances[0].InstanceIds})
		if err != nil {
			t.Fatal(err)
		}
		if i := described.Reservations[0].Instances[0]; string(i.InstanceLifecycle) != tc.market || awssdk.ToString(i.CapacityReservationId) != tc.reservation {
			t.Errorf("%+v: lifecycle %q, reservation %q", tc, i.InstanceLifecycle, awssdk.ToString(i.CapacityReservationId))
		}
	}
}

// Each kind of reservation has its market type and target capacity type; all else is refused. Instances have it as their lifecycle.
func TestMarkets(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	zone := server.Resources().Subnets[0].Zone
	add := func(change func(*aws.CapacityReservation)) string {
		r := aws.CapacityReservation{InstanceType: "m5.large", Zone: zone, Total: 3}
		change(&r)
		return server.AddCapacityReservation(r)
	}
	hour := time.Now().Add(time.Hour)
	block := add(func(r *aws.CapacityReservation) { r.Type, r.Ends = "capacity-block", hour })
	lent := add(func(r *aws.CapacityReservation) { r.Interruptible = true })
	ordinary := add(func(*aws.CapacityReservation) {})
	later := add(func(r *aws.CapacityReservation) {
		r.Type, r.Starts, r.Ends = "capacity-block", hour, hour.Add(24*time.Hour)
	})
	const lentMarket = "interruptible-capacity-reservation"
	for _, tc := range []marketCase{
		{block, "capacity-block", "capacity-block", ""},
		{lent, lentMarket, "reserved-capacity", ""},
		{ordinary, "", "on-demand", ""},
		{block, "", "on-demand", "InvalidParameterCombination"},
		{ordinary, "capacity-block", "capacity-block", "InvalidParameterCombination"},
		{lent, "", "on-demand", "InvalidParameterCombination"},
		{lent, lentMarket, "on-demand", "InvalidFleetConfig"},
		{block, "capacity-block", "reserved-capacity", "InvalidFleetConfig"},
		{later, "capacity-block", "capacity-block", "InsufficientInstanceCapacity"},
	} {
		out, err := client.CreateFleet(t.Context(), marketFleet(t, server, tc.reservation, tc.market, tc.target))
		tc.check(t, client, out, err)
	}
	two := marketFleet(t, server, block, "capacity-block", "capacity-block")
	two.LaunchTemplateConfigs = append(two.LaunchTemplateConfigs, marketFleet(t, server, later, "capacity-block", "capacity-block").LaunchTemplateConfigs...)
	if _, err := client.CreateFleet(t.Context(), two); errorCode(err) != "InvalidFleetConfig" {
		t.Errorf("two Capacity Blocks in one fleet: %v", err)
	}
	for _, r := range reservations(t, client, filter("state", "scheduled")) {
		if awssdk.ToString(r.CapacityReservationId) != later || !awssdk.ToTime(r.StartDate).Equal(hour.Truncate(time.Second)) && r.StartDate == nil {
			t.Errorf("scheduled: %+v", r)
		}
	}
}

// An open reservation takes the instances of every launch on demand that does not ask for none.
func TestOpenReservation(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	id := server.AddCapacityReservation(aws.CapacityReservation{InstanceType: "m5.large", Zone: server.Resources().Subnets[0].Zone, Total: 1, Open: true})
	for _, tc := range []struct {
		preference ec2types.CapacityReservationPreference
		spot       bool
		want       string
	}{{"none", false, ""}, {"", true, ""}, {"", false, id}, {"", false, ""}} {
		in := templateInput(t, client, "open-"+string(tc.preference))
		if tc.preference != "" {
			in.LaunchTemplateData.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
				CapacityReservationPreference: tc.preference,
			}
		}
		if _, err := client.CreateLaunchTemplate(t.Context(), in); err != nil && errorCode(err) != "InvalidLaunchTemplateName.AlreadyExistsException" {
			t.Fatal(err)
		}
		fleet := fleetInput(t, server, 1, "m5.large")
		fleet.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = in.LaunchTemplateName
		fleet.LaunchTemplateConfigs[0].Overrides = fleet.LaunchTemplateConfigs[0].Overrides[:1]
		if tc.spot {
			fleet = asSpot(fleet, ec2types.SpotAllocationStrategyPriceCapacityOptimized)
		}
		out := createFleet(t, server, fleet)
		described, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: launched(out)})
		if err != nil {
			t.Fatal(err)
		}
		if got := awssdk.ToString(described.Reservations[0].Instances[0].CapacityReservationId); got != tc.want {
			t.Errorf("%+v: runs in %q", tc, got)
		}
	}
}

// EC2 terminates the instances of a Capacity Block 30 minutes before its end, and those of an interruptible reservation after a warning.
func TestReservedCapacityEnds(t *testing.T) {
	server := start(t, remembers)
	client := ec2Client(server)
	zone := server.Resources().Subnets[0].Zone
	block := server.AddCapacityReservation(aws.CapacityReservation{
		InstanceType: "m5.large", Zone: zone, Total: 1, Type: "capacity-block", Ends: time.Now().Add(30*time.Minute + 15*time.Second),
	})
	lent := server.AddCapacityReservation(aws.CapacityReservation{InstanceType: "m5.large", Zone: zone, Total: 1, Interruptible: true})
	ended := launched(createFleet(t, server, marketFleet(t, server, block, "capacity-block", "capacity-block")))
	taken := launched(createFleet(t, server, marketFleet(t, server, lent, "interruptible-capacity-reservation", "reserved-capacity")))
	if len(ended) != 1 || len(taken) != 1 {
		t.Fatalf("launched %v and %v", ended, taken)
	}
	if err := server.Interrupt(taken[0]); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{taken[0], ended[0]} { // In the order of their ends: AWS forgets instances some seconds after that.
		eventually(t, id+" to be terminated", func() bool {
			out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
			if err != nil {
				t.Fatal(err)
			}
			return out.Reservations[0].Instances[0].State.Name == ec2types.InstanceStateNameTerminated
		})
	}
	if out := createFleet(t, server, marketFleet(t, server, block, "capacity-block", "capacity-block")); len(launched(out)) != 0 {
		t.Errorf("launched into a block that ends: %+v", out)
	}
}
