package aws_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
)

// start runs a server for the test whose simulated time is a thousand times faster.
func start(t *testing.T, change func(*aws.Config)) *aws.Server {
	t.Helper()
	cfg := aws.Config{ClusterName: "test", Clock: clock.New(1000), Seed: 1, VisibleAfter: -1}
	if change != nil {
		change(&cfg)
	}
	server, err := aws.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	server.SetCluster("https://127.0.0.1:6443", []byte("certificate"))
	return server
}

// config is an SDK configuration as a user's would be, but for the endpoint.
func config(server *aws.Server) awssdk.Config {
	return awssdk.Config{
		Region: "us-east-1", BaseEndpoint: awssdk.String(server.URL()),
		Credentials:      credentials.NewStaticCredentialsProvider("AKIATEST", "secret", ""),
		RetryMaxAttempts: 1,
	}
}

func ec2Client(server *aws.Server) *ec2.Client { return ec2.NewFromConfig(config(server)) }

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}

// wantCode fails unless err is AWS's error of the code.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Fatalf("got error %v, want AWS's %s", err, code)
	}
	if api.ErrorCode() != code {
		t.Errorf("got error %s, want %s", err, code)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s took longer than %s", what, patience)
		}
	}
}

// fleetInput asks for n instances of the types in all zones, with a launch template that it creates if it is not there.
func fleetInput(t *testing.T, server *aws.Server, n int32, types ...string) *ec2.CreateFleetInput {
	t.Helper()
	client := ec2Client(server)
	_, err := client.CreateLaunchTemplate(t.Context(), templateInput(t, client, "slipway.dev/test"))
	if err != nil {
		wantCode(t, err, "InvalidLaunchTemplateName.AlreadyExistsException")
	}
	var overrides []ec2types.FleetLaunchTemplateOverridesRequest
	for _, name := range types {
		for _, subnet := range server.Resources().Subnets {
			overrides = append(overrides, ec2types.FleetLaunchTemplateOverridesRequest{
				InstanceType: ec2types.InstanceType(name), SubnetId: awssdk.String(subnet.ID), AvailabilityZone: awssdk.String(subnet.Zone),
			})
		}
	}
	return &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant,
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: awssdk.String("slipway.dev/test"), Version: awssdk.String("$Latest"),
			},
			Overrides: overrides,
		}},
		OnDemandOptions: &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand, TotalTargetCapacity: awssdk.Int32(n),
		},
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeInstance,
			Tags:         []ec2types.Tag{{Key: awssdk.String("karpenter.sh/nodepool"), Value: awssdk.String("default")}},
		}},
	}
}

// asSpot turns a fleet's request into one for spot capacity.
func asSpot(in *ec2.CreateFleetInput, strategy ec2types.SpotAllocationStrategy) *ec2.CreateFleetInput {
	in.OnDemandOptions = nil
	in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: strategy}
	in.TargetCapacitySpecification.DefaultTargetCapacityType = ec2types.DefaultTargetCapacityTypeSpot
	return in
}

// launched are the ids of a fleet's instances.
func launched(out *ec2.CreateFleetOutput) []string {
	var ids []string
	for _, i := range out.Instances {
		ids = append(ids, i.InstanceIds...)
	}
	return ids
}

func createFleet(t *testing.T, server *aws.Server, in *ec2.CreateFleetInput) *ec2.CreateFleetOutput {
	t.Helper()
	out, err := ec2Client(server).CreateFleet(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func instance(t *testing.T, server *aws.Server, id string) aws.Instance {
	t.Helper()
	all := server.Instances()
	i := slices.IndexFunc(all, func(i aws.Instance) bool { return i.ID == id })
	if i < 0 {
		t.Fatalf("instance %s does not exist", id)
	}
	return all[i]
}
