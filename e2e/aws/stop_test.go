package aws_test

import (
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/slipway-k8s/slipway/e2e/aws"
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
	server := start(t, nil)
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

// EC2 promises no capacity to a stopped instance: it stays stopped where there is none.
func TestStartWithoutCapacity(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	inState(t, server, id, aws.StateRunning)
	if _, err := client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	launch := &ec2.StartInstancesInput{InstanceIds: []string{id}}
	if instance(t, server, id).State == aws.StateStopping {
		_, err := client.StartInstances(t.Context(), launch)
		if instance(t, server, id).State == aws.StateStopping {
			wantCode(t, err, "IncorrectInstanceState")
		}
	}
	inState(t, server, id, aws.StateStopped)
	server.ICE("m5.large", instance(t, server, id).Zone, aws.OnDemand, time.Hour)
	_, err := client.StartInstances(t.Context(), launch)
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
