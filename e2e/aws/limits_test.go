package aws_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
)

// calls makes a call until it is refused, and returns how often it was answered.
func calls(t *testing.T, most int, call func() error) int {
	t.Helper()
	for n := range most {
		if err := call(); err != nil {
			wantCode(t, err, "RequestLimitExceeded")
			return n
		}
	}
	return most
}

// Each operation has a bucket of its own; real time hardly refills it while the calls are made, the clock being slow.
func TestRequestLimits(t *testing.T) {
	server := start(t, func(c *aws.Config) {
		c.LimitedKeys, c.Clock, c.AnswerAfter = []string{"AKIATEST"}, clock.New(0.001), -1
	})
	client := ec2Client(server)
	filtered := &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filter("instance-id", "i-1")}}
	describe := func(in *ec2.DescribeInstancesInput) func() error {
		return func() error { _, err := client.DescribeInstances(t.Context(), in); return err }
	}
	if n := calls(t, 200, describe(filtered)); n != 100 {
		t.Errorf("%d calls with a filter were answered, want 100", n)
	}
	if n := calls(t, 200, describe(&ec2.DescribeInstancesInput{})); n != 50 {
		t.Errorf("%d calls for everything were answered, want 50", n)
	}
	n := calls(t, 200, func() error {
		_, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
		return err
	})
	if n != 100 {
		t.Errorf("another operation was answered %d times, want 100", n)
	}
	// Instances count too, whoever is not limited aside.
	first := fleetInput(t, server, 900, "m5.large")
	createFleet(t, server, first)
	_, err := client.CreateFleet(t.Context(), fleetInput(t, server, 200, "m5.large"))
	wantCode(t, err, "RequestLimitExceeded")
	cfg := config(server)
	other := ec2.NewFromConfig(cfg, func(o *ec2.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider("AKIAOTHER", "secret", "")
	})
	if _, err := other.CreateFleet(t.Context(), fleetInput(t, server, 200, "m5.large")); err != nil {
		t.Error(err)
	}
}

// EC2 knows an instance before it knows its tags, and tags that were changed a moment later.
func TestTagsComeLate(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.Clock, c.TagsAfter = clock.New(1), 300*time.Millisecond })
	client := ec2Client(server)
	in := fleetInput(t, server, 1, "m5.large")
	begin := time.Now()
	id := launched(createFleet(t, server, in))[0]
	byTag := func(name, value string) int {
		out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filter("tag:"+name, value)}})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Reservations)
	}
	if n := byTag("karpenter.sh/nodepool", "default"); n > 0 && time.Since(begin) < 200*time.Millisecond {
		t.Error("the tags are told with the instance")
	}
	eventually(t, "the tags of the launch", func() bool { return byTag("karpenter.sh/nodepool", "default") == 1 })
	begin = time.Now()
	if _, err := client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList("Name", "a")}); err != nil {
		t.Fatal(err)
	}
	if n := byTag("Name", "a"); n > 0 && time.Since(begin) < 200*time.Millisecond {
		t.Error("a tag is told at once")
	}
	if n := byTag("karpenter.sh/nodepool", "default"); n != 1 {
		t.Error("the tags from before are not told while a new one is on its way")
	}
	eventually(t, "the new tag", func() bool { return byTag("Name", "a") == 1 })
	if got := instance(t, server, id).Tags["Name"]; got != "a" {
		t.Errorf("the tag is %q", got)
	}
}

// A spot instance lives as long after its warning as the configuration says.
func TestSpotNotice(t *testing.T) {
	server := start(t, func(c *aws.Config) { c.Clock, c.SpotNotice = clock.New(1), time.Millisecond })
	id := launched(createFleet(t, server, asSpot(fleetInput(t, server, 1, "m5.large"), "lowest-price")))[0]
	if err := server.Interrupt(id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the instance", func() bool { return !instance(t, server, id).Live() })
}
