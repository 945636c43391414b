package aws_test

import (
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
)

func TestFleetLaunches(t *testing.T) {
	server := start(t, nil)
	out := createFleet(t, server, fleetInput(t, server, 3, "m5.xlarge", "m5.large", "c5.xlarge"))
	ids := launched(out)
	if len(ids) != 3 || len(out.Errors) != 0 {
		t.Fatalf("got %d instances and errors %+v", len(ids), out.Errors)
	}
	// The cheapest of the three on demand.
	if got := out.Instances[0].InstanceType; got != "m5.large" {
		t.Errorf("got %s, want m5.large", got)
	}
	if got := awssdk.ToString(out.Instances[0].LaunchTemplateAndOverrides.Overrides.AvailabilityZone); got == "" {
		t.Error("the answer does not tell the zone")
	}
	i := instance(t, server, ids[0])
	want := aws.Instance{
		ID: ids[0], Type: "m5.large", Zone: i.Zone, ZoneID: i.ZoneID, Architecture: "x86_64", ImageID: i.ImageID, CapacityType: "on-demand",
		PrivateDNSName: i.PrivateDNSName, PrivateIP: i.PrivateIP, UserData: userData, LaunchTemplateName: "slipway.dev/test",
		VCPU: 2, MemoryMiB: 8192, MaxENIs: 3, IPv4PerENI: 10, RootVolumeGiB: 50, State: i.State, LaunchTime: i.LaunchTime, Tags: i.Tags, Price: 0.096,
	}
	if diff := cmp.Diff(want, i); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
	for key, value := range map[string]string{
		"karpenter.sh/nodepool": "default", "from": "template", "aws:ec2:fleet-id": awssdk.ToString(out.FleetId), "aws:ec2launchtemplate:version": "1",
	} {
		if i.Tags[key] != value {
			t.Errorf("tag %s is %q, want %q", key, i.Tags[key], value)
		}
	}
}

// A token makes the same call once, whoever repeats it; another call with the token is refused.
func TestFleetToken(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	in := fleetInput(t, server, 2, "m5.large")
	in.ClientToken = awssdk.String("launch-1")
	results := make(chan []string, 4)
	for range cap(results) {
		go func() {
			out, err := client.CreateFleet(t.Context(), in)
			if err != nil {
				t.Error(err)
				results <- nil
				return
			}
			results <- launched(out)
		}()
	}
	first := <-results
	for range cap(results) - 1 {
		if diff := cmp.Diff(first, <-results); diff != "" {
			t.Errorf("the same call got other instances (-first +later):\n%s", diff)
		}
	}
	if n := len(server.Instances()); n != 2 {
		t.Errorf("%d instances were launched, want 2", n)
	}
	in.TargetCapacitySpecification.TotalTargetCapacity = awssdk.Int32(3)
	_, err := client.CreateFleet(t.Context(), in)
	wantCode(t, err, "IdempotentParameterMismatch")

	calls := 0
	for _, c := range server.Calls() {
		if c.Action == "CreateFleet" && c.ClientToken == "launch-1" && c.Error == "" && c.Asked == 2 {
			calls++
		}
	}
	if calls != 4 {
		t.Errorf("%d calls of CreateFleet with the token were recorded, want 4", calls)
	}
}

func TestFleetWithoutCapacity(t *testing.T) {
	server := start(t, nil)
	zones := server.Resources().Subnets

	// One zone lacks the cheapest type: the fleet comes from another zone, and the answer may tell of the first.
	server.ICE("m5.large", zones[0].Zone, "on-demand", time.Minute)
	out := createFleet(t, server, fleetInput(t, server, 2, "m5.large"))
	if len(launched(out)) != 2 {
		t.Fatalf("got %d instances, want 2", len(launched(out)))
	}
	if len(out.Errors) != 1 || awssdk.ToString(out.Errors[0].ErrorCode) != "InsufficientInstanceCapacity" ||
		awssdk.ToString(out.Errors[0].LaunchTemplateAndOverrides.Overrides.AvailabilityZone) != zones[0].Zone {
		t.Errorf("got errors %+v, want InsufficientInstanceCapacity in %s", out.Errors, zones[0].Zone)
	}
	// None has any: no instance and an error for each override, and the call itself works.
	server.ICE("m5.large", "all", "all", time.Minute)
	out = createFleet(t, server, fleetInput(t, server, 2, "m5.large"))
	if len(launched(out)) != 0 || len(out.Errors) != len(zones) {
		t.Errorf("got %d instances and %d errors, want none and %d", len(launched(out)), len(out.Errors), len(zones))
	}
	// Another type still has.
	if out = createFleet(t, server, fleetInput(t, server, 1, "m5.large", "m6i.large")); len(launched(out)) != 1 {
		t.Errorf("got %d instances of m6i.large, want 1", len(launched(out)))
	}
	server.ClearICE()
	if out = createFleet(t, server, fleetInput(t, server, 1, "m5.large")); len(launched(out)) != 1 {
		t.Errorf("got %d instances after the capacity is back, want 1", len(launched(out)))
	}
	// And capacity comes back by itself.
	server.ICE("all", "all", "all", 50*time.Millisecond)
	eventually(t, "capacity to be back", func() bool {
		return len(launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))) == 1
	})
}

func TestFleetOverridesRefused(t *testing.T) {
	server := start(t, nil)
	for name, c := range map[string]struct {
		change func(*ec2.CreateFleetInput)
		code   string
	}{
		"an arm64 type with an x86_64 AMI": {func(in *ec2.CreateFleetInput) { in.LaunchTemplateConfigs[0].Overrides[0].InstanceType = "m7g.large" }, "InvalidParameterValue"},
		"a type that does not exist":       {func(in *ec2.CreateFleetInput) { in.LaunchTemplateConfigs[0].Overrides[0].InstanceType = "m5.tiny" }, "InvalidParameterValue"},
		"a subnet that does not exist": {func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].Overrides[0].SubnetId = awssdk.String("subnet-1")
		}, "InvalidSubnetID.NotFound"},
		"an AMI that does not exist": {func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].Overrides[0].ImageId = awssdk.String("ami-1")
		}, "InvalidAMIID.NotFound"},
		"a price below the market's": {func(in *ec2.CreateFleetInput) {
			asSpot(in, ec2types.SpotAllocationStrategyLowestPrice)
			in.LaunchTemplateConfigs[0].Overrides[0].MaxPrice = awssdk.String("0.0001")
		}, "SpotMaxPriceTooLow"},
	} {
		t.Run(name, func(t *testing.T) {
			in := fleetInput(t, server, 1, "m5.large")
			in.LaunchTemplateConfigs[0].Overrides = in.LaunchTemplateConfigs[0].Overrides[:1]
			c.change(in)
			out := createFleet(t, server, in)
			if len(out.Errors) != 1 || awssdk.ToString(out.Errors[0].ErrorCode) != c.code || len(launched(out)) != 0 {
				t.Errorf("got errors %+v and %d instances, want %s", out.Errors, len(launched(out)), c.code)
			}
		})
	}
}

func TestFleetRefused(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	for name, c := range map[string]struct {
		change func(*ec2.CreateFleetInput)
		code   string
	}{
		"a launch template that does not exist": {func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = awssdk.String("another")
		}, "InvalidLaunchTemplateName.NotFoundException"},
		"a version that does not exist": {func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.Version = awssdk.String("7")
		}, "InvalidLaunchTemplateId.VersionNotFound"},
		"no instance": {func(in *ec2.CreateFleetInput) {
			in.TargetCapacitySpecification.TotalTargetCapacity = awssdk.Int32(0)
		}, "InvalidTargetCapacitySpecification"},
		"a kind that is not built": {func(in *ec2.CreateFleetInput) { in.Type = ec2types.FleetTypeMaintain }, "InvalidParameterValue"},
		"a strategy of the other market": {func(in *ec2.CreateFleetInput) {
			in.OnDemandOptions.AllocationStrategy = "price-capacity-optimized"
		}, "InvalidParameterValue"},
		"a type twice in a zone": {func(in *ec2.CreateFleetInput) {
			overrides := in.LaunchTemplateConfigs[0].Overrides
			in.LaunchTemplateConfigs[0].Overrides = append(overrides, overrides[0])
		}, "InvalidFleetConfig"},
		"a type twice in a zone, with two launch templates": {func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, in.LaunchTemplateConfigs[0])
		}, "InvalidFleetConfig"},
		"a dry run": {func(in *ec2.CreateFleetInput) { in.DryRun = awssdk.Bool(true) }, "DryRunOperation"},
	} {
		t.Run(name, func(t *testing.T) {
			in := fleetInput(t, server, 1, "m5.large")
			c.change(in)
			_, err := client.CreateFleet(t.Context(), in)
			wantCode(t, err, c.code)
		})
	}
	if n := len(server.Instances()); n != 0 {
		t.Errorf("%d instances were launched all the same", n)
	}
}

func TestFleetSpot(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.Clock = clock.New(1) })
	for _, strategy := range ec2types.SpotAllocationStrategyPriceCapacityOptimized.Values() {
		out := createFleet(t, server, asSpot(fleetInput(t, server, 4, "m5.large", "m6i.large", "m7i.large"), strategy))
		ids := launched(out)
		if len(ids) != 4 {
			t.Fatalf("%s: got %d instances, want 4", strategy, len(ids))
		}
		if out.Instances[0].Lifecycle != ec2types.InstanceLifecycleSpot {
			t.Errorf("%s: lifecycle is %q", strategy, out.Instances[0].Lifecycle)
		}
		i := instance(t, server, ids[0])
		if i.CapacityType != aws.Spot || i.Price <= 0 || i.Price >= 0.1 {
			t.Errorf("%s: got capacity type %s for %v", strategy, i.CapacityType, i.Price)
		}
		if want := map[bool]int{true: 4, false: 1}[strategy == ec2types.SpotAllocationStrategyDiversified]; len(out.Instances) != want {
			t.Errorf("%s: instances came from %d pools, want %d", strategy, len(out.Instances), want)
		}
	}
	// The lowest price is the lowest that the price history tells.
	history, err := ec2Client(server).DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []ec2types.InstanceType{"m5.large", "m6i.large", "m7i.large"}, StartTime: awssdk.Time(time.Now()),
		ProductDescriptions: []string{"Linux/UNIX"},
	})
	if err != nil || len(history.SpotPriceHistory) != 9 {
		t.Fatalf("got %d prices (%v), want 9", len(history.SpotPriceHistory), err)
	}
	best := history.SpotPriceHistory[0]
	for _, p := range history.SpotPriceHistory {
		if awssdk.ToString(p.SpotPrice) < awssdk.ToString(best.SpotPrice) {
			best = p
		}
	}
	out := createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large", "m6i.large", "m7i.large"), "lowest-price"))
	i := instance(t, server, launched(out)[0])
	if i.Type != string(best.InstanceType) || i.Zone != awssdk.ToString(best.AvailabilityZone) {
		t.Errorf("got %s in %s, the cheapest is %s in %s", i.Type, i.Zone, best.InstanceType, awssdk.ToString(best.AvailabilityZone))
	}
}
