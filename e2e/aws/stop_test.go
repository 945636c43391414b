package aws_test

import (
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
)

func inState(t *testing.T, server *aws.Server, id, state string) {
	t.Helper()
	eventually(t, "the instance to be "+state, func() bool { return instance(t, server, id).State == state })
}

// billedForVolumes checks how the bill of a stopped instance goes on.
func billedForVolumes(t *testing.T, server *aws.Server, id string) {
	t.Helper()
	from := time.Now().Add(2 * time.Minute) // The run so far counts as a minute.
	first, later := lineOf(t, server, id, from), lineOf(t, server, id, from.Add(time.Hour))
	if later.Hours != first.Hours || later.Volumes <= first.Volumes {
		t.Errorf("while it is stopped, the bill grows from %+v to %+v", first, later)
	}
}

// A stopped instance keeps its name, addresses and volumes, and is billed for the volumes alone.
func TestStopAndStart(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	stop := &ec2.StopInstancesInput{InstanceIds: []string{id}}
	launch := &ec2.StartInstancesInput{InstanceIds: []string{id}}
	inState(t, server, id, aws.StateRunning)
	before := described(t, client, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})[0]
	out, err := client.StopInstances(t.Context(), stop)
	if err != nil || out.StoppingInstances[0].CurrentState.Name != "stopping" || out.StoppingInstances[0].PreviousState.Name != "running" {
		t.Fatalf("got %+v, %v", out, err)
	}
	inState(t, server, id, aws.StateStopped)
	if _, err := client.StopInstances(t.Context(), stop); err != nil {
		t.Error(err)
	}
	if i := instance(t, server, id); i.Live() || !i.Asleep() {
		t.Errorf("a stopped instance is %+v", i)
	}
	asleep := described(t, client, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})[0]
	if awssdk.ToInt32(asleep.State.Code) != 80 || awssdk.ToString(asleep.PrivateDnsName) != awssdk.ToString(before.PrivateDnsName) ||
		len(asleep.BlockDeviceMappings) != len(before.BlockDeviceMappings) {
		t.Errorf("a stopped instance is shown as %+v", asleep)
	}
	billedForVolumes(t, server, id)
	for range 2 {
		if _, err := client.StartInstances(t.Context(), launch); err != nil {
			t.Fatal(err)
		}
	}
	inState(t, server, id, aws.StateRunning)
	after := instance(t, server, id)
	if after.Starts != 1 || !after.LaunchTime.After(awssdk.ToTime(before.LaunchTime)) || after.PrivateDNSName != awssdk.ToString(before.PrivateDnsName) {
		t.Errorf("started again it is %+v", after)
	}
}

// What has ended neither stops nor starts, and hibernation is refused where the launch has not configured it.
func TestStopsThatAreRefused(t *testing.T) {
	server := start(t, remembers)
	client := ec2Client(server)
	ids := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))
	inState(t, server, ids[0], aws.StateRunning)
	_, err := client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids, Hibernate: awssdk.Bool(true)})
	wantCode(t, err, "UnsupportedHibernationConfiguration")
	_, err = client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids, DryRun: awssdk.Bool(true)})
	wantCode(t, err, "DryRunOperation")
	if err := server.Terminate(ids[0]); err != nil {
		t.Fatal(err)
	}
	inState(t, server, ids[0], aws.StateTerminated)
	_, err = client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids})
	wantCode(t, err, "IncorrectInstanceState")
	_, err = client.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: ids})
	wantCode(t, err, "IncorrectInstanceState")
}

// hibernating adapts a launch template for hibernation, with a root volume of a size.
func hibernating(t *testing.T, server *aws.Server, name string, gib int32, encrypted bool) {
	t.Helper()
	in := templateInput(t, ec2Client(server), name)
	in.LaunchTemplateData.HibernationOptions = &ec2types.LaunchTemplateHibernationOptionsRequest{Configured: awssdk.Bool(true)}
	in.LaunchTemplateData.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
		DeviceName: awssdk.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: awssdk.Int32(gib), Encrypted: awssdk.Bool(encrypted)},
	}}
	if _, err := ec2Client(server).CreateLaunchTemplate(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// An instance that was launched for it hibernates, but not at once, and comes back. EC2 launches none that lacks a prerequisite.
func TestHibernation(t *testing.T) {
	const young = 2 * time.Second // Twenty at the speed of the clock.
	server := start(t, func(c *aws.Config) { c.Clock = clock.New(10); c.HibernatesFrom = 10 * young })
	client := ec2Client(server)
	from := func(template, instanceType string, gib int32, encrypted bool) *ec2.CreateFleetOutput {
		hibernating(t, server, template, gib, encrypted)
		in := fleetInput(t, server, 1, instanceType)
		in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = &template
		return createFleet(t, server, in)
	}
	begin := time.Now()
	id := launched(from("good", "m5.large", 20, true))[0]
	inState(t, server, id, aws.StateRunning)
	hibernate := &ec2.StopInstancesInput{InstanceIds: []string{id}, Hibernate: awssdk.Bool(true)}
	if _, err := client.StopInstances(t.Context(), hibernate); err != nil || time.Since(begin) < young {
		wantCode(t, err, "IncorrectInstanceState")
	}
	eventually(t, "the instance to hibernate", func() bool { _, err := client.StopInstances(t.Context(), hibernate); return err == nil })
	inState(t, server, id, aws.StateStopped)
	got := described(t, client, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})[0]
	if !instance(t, server, id).Hibernated || !awssdk.ToBool(got.HibernationOptions.Configured) || awssdk.ToString(got.StateReason.Code) != "Client.UserInitiatedHibernate" {
		t.Errorf("a hibernated instance is %+v", got)
	}
	if _, err := client.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	inState(t, server, id, aws.StateRunning)
	for name, out := range map[string]*ec2.CreateFleetOutput{
		"not encrypted":   from("open", "m5.large", 50, false),
		"a small volume":  from("small", "m5.4xlarge", 50, true),
		"too much memory": from("much", "r5.8xlarge", 500, true),
	} {
		if len(out.Instances) != 0 || len(out.Errors) == 0 || awssdk.ToString(out.Errors[0].ErrorCode) != "UnsupportedHibernationConfiguration" {
			t.Errorf("%s: %+v, %+v", name, out.Instances, out.Errors)
		}
	}
}

// EC2 promises no capacity to a stopped instance: it stays stopped where there is none.
func TestStartWithoutCapacity(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.StoppedAfter = 5 * time.Hour }) // 18 seconds, so that it is seen to be stopping.
	client := ec2Client(server)
	id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	inState(t, server, id, aws.StateRunning)
	if _, err := client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	launch := &ec2.StartInstancesInput{InstanceIds: []string{id}}
	_, err := client.StartInstances(t.Context(), launch)
	wantCode(t, err, "IncorrectInstanceState")
	inState(t, server, id, aws.StateStopped)
	server.ICE("m5.large", instance(t, server, id).Zone, aws.OnDemand, time.Hour)
	_, err = client.StartInstances(t.Context(), launch)
	wantCode(t, err, "InsufficientInstanceCapacity")
	server.ClearICE()
	server.SetQuota(aws.OnDemand, 1)
	_, err = client.StartInstances(t.Context(), launch)
	wantCode(t, err, "VcpuLimitExceeded")
	server.SetQuota(aws.OnDemand, -1)
	if _, err := client.StartInstances(t.Context(), launch); err != nil {
		t.Error(err)
	}
	if _, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	inState(t, server, id, aws.StateTerminated)
}

func TestSpotInstancesCannotStop(t *testing.T) {
	server := start(t, nil)
	id := launched(createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large"), "lowest-price")))[0]
	inState(t, server, id, aws.StateRunning)
	_, err := ec2Client(server).StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}})
	wantCode(t, err, "UnsupportedOperation")
}
