package aws_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
)

func described(t *testing.T, client *ec2.Client, in *ec2.DescribeInstancesInput) []ec2types.Instance {
	t.Helper()
	var out []ec2types.Instance
	pages := ec2.NewDescribeInstancesPaginator(client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Reservations {
			out = append(out, r.Instances...)
		}
	}
	return out
}

func TestDescribeInstances(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.Clock = clock.New(1); c.RunningAfter = -1 })
	client := ec2Client(server)
	spot := launched(createFleet(t, server, asSpot(fleetInput(t, server, 9, "m5.large"), "lowest-price")))
	bought := launched(createFleet(t, server, fleetInput(t, server, 4, "c5.xlarge")))

	if n := len(described(t, client, &ec2.DescribeInstancesInput{MaxResults: awssdk.Int32(5)})); n != 13 {
		t.Errorf("by pages of 5 there are %d instances, want 13", n)
	}
	for name, c := range map[string]struct {
		filters []ec2types.Filter
		want    int
	}{
		"ids, also one that is not known": {[]ec2types.Filter{filter("instance-id", bought[0], bought[1], "i-00000000000000000")}, 2},
		"a tag of the fleet":              {[]ec2types.Filter{filter("tag:karpenter.sh/nodepool", "default")}, 13},
		"a tag's key":                     {[]ec2types.Filter{filter("tag-key", "from"), filter("instance-type", "m5.*")}, 9},
		"spot":                            {[]ec2types.Filter{filter("instance-lifecycle", "spot")}, 9},
		"no state of theirs":              {[]ec2types.Filter{filter("instance-state-name", "terminated", "stopped")}, 0},
		"a name":                          {[]ec2types.Filter{filter("private-dns-name", instance(t, server, spot[3]).PrivateDNSName)}, 1},
	} {
		if got := len(described(t, client, &ec2.DescribeInstancesInput{Filters: c.filters})); got != c.want {
			t.Errorf("%s: %d instances, want %d", name, got, c.want)
		}
	}
	one := described(t, client, &ec2.DescribeInstancesInput{InstanceIds: []string{spot[0]}})[0]
	known := instance(t, server, spot[0])
	if awssdk.ToString(one.PrivateDnsName) != known.PrivateDNSName || awssdk.ToString(one.PrivateIpAddress) != known.PrivateIP ||
		awssdk.ToString(one.Placement.AvailabilityZone) != known.Zone || awssdk.ToString(one.Placement.AvailabilityZoneId) != known.ZoneID ||
		one.InstanceLifecycle != "spot" || len(one.SecurityGroups) != 1 || one.Architecture != "x86_64" || len(one.NetworkInterfaces) != 1 {
		t.Errorf("the API tells %+v of %+v", one, known)
	}
	_, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{"i-00000000000000000"}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
	_, err = client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{"server-7"}})
	wantCode(t, err, "InvalidInstanceID.Malformed")
	_, err = client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: bought, MaxResults: awssdk.Int32(10)})
	wantCode(t, err, "InvalidParameterCombination")
	_, err = client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{MaxResults: awssdk.Int32(2)})
	wantCode(t, err, "InvalidParameterValue")
}

// CreateFleet answers before DescribeInstances knows what it launched.
func TestEventualConsistency(t *testing.T) {
	const after = time.Second
	server := start(t, func(c *aws.Config) { c.Clock = clock.New(1); c.VisibleAfter = after })
	client := ec2Client(server)
	in, begin := fleetInput(t, server, 1, "m5.large"), time.Now()
	id := launched(createFleet(t, server, in))[0]
	if n := len(described(t, client, &ec2.DescribeInstancesInput{})); n != 0 && time.Since(begin) < after {
		t.Errorf("%d instances are seen at once", n)
	}
	if _, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}); err != nil || time.Since(begin) < after {
		wantCode(t, err, "InvalidInstanceID.NotFound")
	}
	eventually(t, "the instance to be seen", func() bool { return len(described(t, client, &ec2.DescribeInstancesInput{})) == 1 })
}

func TestStart(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	ids := launched(createFleet(t, server, fleetInput(t, server, 2, "m5.large")))
	if got := instance(t, server, ids[0]).State; got != aws.StatePending && got != aws.StateRunning {
		t.Errorf("an instance begins as %s", got)
	}
	eventually(t, "the instance to run", func() bool { return instance(t, server, ids[0]).State == aws.StateRunning })
	eventually(t, "its status to be told", func() bool {
		status, err := client.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{InstanceIds: ids})
		return err == nil && len(status.InstanceStatuses) == 2 && status.InstanceStatuses[0].InstanceStatus.Status == "ok"
	})
}

// remembers is a server that shows a terminated instance for as long as a test takes.
func remembers(c *aws.Config) { c.ForgottenAfter = 1000 * time.Hour }

func TestEnd(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.ForgottenAfter = 5 * time.Hour }) // 18 seconds.
	client := ec2Client(server)
	ids := launched(createFleet(t, server, fleetInput(t, server, 2, "m5.large")))
	eventually(t, "the instances to run", func() bool {
		return instance(t, server, ids[0]).State == aws.StateRunning && instance(t, server, ids[1]).State == aws.StateRunning
	})
	_, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids, DryRun: awssdk.Bool(true)})
	wantCode(t, err, "DryRunOperation")
	_, err = client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: append(ids, "i-00000000000000000")})
	wantCode(t, err, "InvalidInstanceID.NotFound")
	if got := instance(t, server, ids[0]).State; got != aws.StateRunning {
		t.Fatalf("calls that are refused ended an instance: it is %s", got)
	}
	out, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err != nil || len(out.TerminatingInstances) != 2 || out.TerminatingInstances[0].PreviousState.Name != "running" {
		t.Fatalf("got %+v, %v", out, err)
	}
	eventually(t, "the instances to be terminated", func() bool {
		return instance(t, server, ids[0]).State == aws.StateTerminated && instance(t, server, ids[1]).State == aws.StateTerminated
	})
	// It is shown for a while, without what it no longer has; ending it again does no harm.
	gone := described(t, client, &ec2.DescribeInstancesInput{InstanceIds: ids[:1]})[0]
	if gone.State.Name != "terminated" || awssdk.ToString(gone.PrivateDnsName) != "" || awssdk.ToString(gone.StateReason.Code) != "Client.UserInitiatedShutdown" {
		t.Errorf("a terminated instance is shown as %+v", gone)
	}
	if _, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids}); err != nil {
		t.Error(err)
	}
	running, err := client.DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{})
	if err != nil || len(running.InstanceStatuses) != 0 {
		t.Errorf("%d instances have a status (%v)", len(running.InstanceStatuses), err)
	}
	// At last it is forgotten by the API, not by the server.
	eventually(t, "the instances to be forgotten", func() bool { return len(described(t, client, &ec2.DescribeInstancesInput{})) == 0 })
	if n := len(server.Instances()); n != 2 {
		t.Errorf("the server remembers %d instances, want 2", n)
	}
}

func TestRunInstances(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	in := &ec2.RunInstancesInput{
		MinCount: awssdk.Int32(1), MaxCount: awssdk.Int32(2), InstanceType: "m5.large", ImageId: awssdk.String(recommended(t, client)),
		SubnetId: awssdk.String(server.Resources().Subnets[1].ID), ClientToken: awssdk.String("once"),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: "instance", Tags: []ec2types.Tag{{Key: awssdk.String("a"), Value: awssdk.String("b")}}}},
	}
	for range 2 {
		out, err := client.RunInstances(t.Context(), in)
		if err != nil || len(out.Instances) != 2 {
			t.Fatalf("got %+v, %v", out, err)
		}
	}
	all := server.Instances()
	if len(all) != 2 || all[0].Zone != "us-east-1b" || all[0].Tags["a"] != "b" || all[0].CapacityType != aws.OnDemand {
		t.Errorf("got %+v", all)
	}
	server.ICE("m5.large", "all", "all", time.Minute)
	in.ClientToken = awssdk.String("another")
	_, err := client.RunInstances(t.Context(), in)
	wantCode(t, err, "InsufficientInstanceCapacity")
	in.InstanceType, in.ClientToken = "m5.tiny", nil
	_, err = client.RunInstances(t.Context(), in)
	wantCode(t, err, "InvalidParameterValue")
}

// Network interfaces of the request replace those of the launch template, their subnet included. A dry run asks for permissions, not for capacity.
func TestRunInstancesWithInterfaces(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	in := fleetInput(t, server, 1, "m5.large")
	name := in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName
	run := &ec2.RunInstancesInput{
		MinCount: awssdk.Int32(1), MaxCount: awssdk.Int32(1), InstanceType: "m5.large", DryRun: awssdk.Bool(true),
		LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateName: name, Version: awssdk.String("$Latest")},
		NetworkInterfaces: []ec2types.InstanceNetworkInterfaceSpecification{
			{DeviceIndex: awssdk.Int32(0), SubnetId: awssdk.String(server.Resources().Subnets[1].ID), AssociatePublicIpAddress: awssdk.Bool(false)},
		},
	}
	server.ICE("m5.large", "all", "all", time.Minute)
	_, err := client.RunInstances(t.Context(), run)
	wantCode(t, err, "DryRunOperation")
	run.DryRun = nil
	_, err = client.RunInstances(t.Context(), run)
	wantCode(t, err, "InsufficientInstanceCapacity")
	run.InstanceType = "m5.xlarge"
	if _, err = client.RunInstances(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if all := server.Instances(); len(all) != 1 || all[0].Zone != "us-east-1b" {
		t.Errorf("got %+v", all)
	}
	run.ClientToken, run.NetworkInterfaces[0].SubnetId = nil, awssdk.String("subnet-gone")
	_, err = client.RunInstances(t.Context(), run)
	wantCode(t, err, "InvalidSubnetID.NotFound")
}

// A watcher sees the instances that there are, and each change of state in its order, however slowly it reads.
func TestWatch(t *testing.T) {
	server := start(t, nil)
	first := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	eventually(t, "the first instance to run", func() bool { return instance(t, server, first).State == aws.StateRunning })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := server.Watch(ctx)
	second := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	eventually(t, "the second instance to run", func() bool { return instance(t, server, second).State == aws.StateRunning })
	for _, id := range []string{first, second} {
		if err := server.Terminate(id); err != nil {
			t.Fatal(err)
		}
	}
	states := map[string][]string{}
	for range 3 + 4 {
		i := <-changes
		states[i.ID] = append(states[i.ID], i.State)
	}
	if got, want := strings.Join(states[first], " "), "running shutting-down terminated"; got != want {
		t.Errorf("the first instance was %s, want %s", got, want)
	}
	if got, want := strings.Join(states[second], " "), "pending running shutting-down terminated"; got != want {
		t.Errorf("the second instance was %s, want %s", got, want)
	}
	cancel()
	for range changes {
		t.Error("there is more to see")
	}
}

func TestManagedNodes(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.VisibleAfter = time.Hour })
	server.FailNextJoins(1)
	i, err := server.RunManaged("system", "m7g.large", "us-east-1c")
	if err != nil {
		t.Fatal(err)
	}
	if i.Tags["eks:nodegroup-name"] != "system" || i.Zone != "us-east-1c" || i.Architecture != "arm64" || i.FailJoin {
		t.Errorf("got %+v", i)
	}
	found := described(t, ec2Client(server), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filter("tag:eks:nodegroup-name", "system")}})
	if len(found) != 1 {
		t.Errorf("EC2 shows %d managed instances, want 1 at once", len(found))
	}
	for _, bad := range [][2]string{{"m5.tiny", "us-east-1a"}, {"m5.large", "eu-west-1a"}} {
		if _, err := server.RunManaged("system", bad[0], bad[1]); err == nil {
			t.Errorf("%s in %s was launched", bad[0], bad[1])
		}
	}
	// The flag waits for an instance that is no managed one, and only as many get it as were asked for.
	ids := launched(createFleet(t, server, fleetInput(t, server, 3, "m5.large")))
	failing := slices.DeleteFunc(ids, func(id string) bool { return !instance(t, server, id).FailJoin })
	if len(failing) != 1 {
		t.Errorf("%d instances fail to join, want 1", len(failing))
	}
}

// EC2 ends an instance at launch: the call succeeded, and the state reason has the cause.
func TestInstancesThatEndAtLaunch(t *testing.T) {
	server := start(t, nil)
	aws.EndNextLaunches(server, 1, "Client.InternalError", "Client error on launch")
	ids := launched(createFleet(t, server, fleetInput(t, server, 2, "m5.large")))
	eventually(t, "one instance to end and the other one to run", func() bool {
		ended, running := 0, 0
		for _, i := range described(t, ec2Client(server), &ec2.DescribeInstancesInput{InstanceIds: ids}) {
			switch {
			case i.State.Name == "running":
				running++
			case i.State.Name == "terminated" && i.StateReason != nil && awssdk.ToString(i.StateReason.Message) == "Client.InternalError: Client error on launch":
				ended++
			}
		}
		return ended == 1 && running == 1
	})
}

// Addresses that are free again are given out last: no two instances of a test have the same name.
func TestAddressesAreNotReused(t *testing.T) {
	server := start(t, nil)
	names := map[string]bool{}
	for range 5 {
		id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
		i := instance(t, server, id)
		if names[i.PrivateDNSName] {
			t.Errorf("the name %s comes twice", i.PrivateDNSName)
		}
		names[i.PrivateDNSName] = true
		if err := server.Terminate(id); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the instance to be terminated", func() bool { return instance(t, server, id).State == aws.StateTerminated })
	}
}
