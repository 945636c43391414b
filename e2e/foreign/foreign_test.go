package foreign_test

import (
	"context"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
	"github.com/slipway-k8s/slipway/e2e/foreign"
	"github.com/slipway-k8s/slipway/e2e/machines"
	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

// other runs an AWS that stands for somebody else's.
func other(t *testing.T, change func(*aws.Config)) (*aws.Server, *foreign.AWS) {
	t.Helper()
	cfg := aws.Config{ClusterName: "test", Clock: clock.New(1000), Seed: 1, VisibleAfter: -1, AnswerAfter: -1}
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
		if broken := server.Violations(); len(broken) > 0 {
			t.Errorf("not as AWS's models say: %q", broken)
		}
	})
	seen, err := foreign.New(foreign.Config{
		Endpoint: server.URL(), Region: "us-east-1", ClusterName: "test", Role: "KarpenterNodeRole-test", Poll: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return server, seen
}

func client(server *aws.Server) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: "us-east-1", BaseEndpoint: awssdk.String(server.URL()),
		Credentials: credentials.NewStaticCredentialsProvider("AKIATEST", "secret", ""),
	})
}

// run launches one instance of each type, with user data, on the AMI of its architecture.
func run(t *testing.T, server *aws.Server, types ...ec2types.InstanceType) {
	t.Helper()
	for _, name := range types {
		arch := "x86_64"
		if strings.Contains(string(name), "g.") {
			arch = "arm64"
		}
		images, err := client(server).DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: []ec2types.Filter{
			{Name: awssdk.String("architecture"), Values: []string{arch}}, {Name: awssdk.String("name"), Values: []string{"amazon-eks-node-al2023-*"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client(server).RunInstances(t.Context(), &ec2.RunInstancesInput{
			InstanceType: name, ImageId: images.Images[0].ImageId, MinCount: awssdk.Int32(1), MaxCount: awssdk.Int32(1),
			UserData: awssdk.String("Ym9vdA=="),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// read takes n instances out of a watch, by id, the last of each.
func read(t *testing.T, from <-chan instance.Instance, n int, state instance.State) map[string]instance.Instance {
	t.Helper()
	out := map[string]instance.Instance{}
	count := 0
	for count < n {
		select {
		case i, open := <-from:
			if !open {
				t.Fatal("the watch ended")
			}
			out[i.ID] = i
			if i.State == state {
				count++
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%d of %d instances are in state %d", count, n, state)
		}
	}
	return out
}

// A machine is the same whether the AWS tells of it by itself or is asked for it over the wire.
func TestWatch(t *testing.T) {
	server, seen := other(t, nil)
	types := []ec2types.InstanceType{"m5.large", "m7g.4xlarge", "g5.12xlarge", "inf2.24xlarge", "i4i.xlarge"}
	run(t, server, types...)
	own := read(t, machines.FromAWS(server).Watch(t.Context()), len(types), instance.Running)
	watched := seen.Watch(t.Context())
	asked := read(t, watched, len(types), instance.Running)
	// The size of the volume is what nothing but EC2's own bookkeeping tells.
	if diff := cmp.Diff(own, asked, cmpopts.IgnoreFields(instance.Instance{}, "RootVolumeGiB"), cmpopts.EquateApproxTime(time.Second)); diff != "" {
		t.Errorf("-told +asked:\n%s", diff)
	}
	for id := range own {
		if err := server.Terminate(id); err != nil {
			t.Fatal(err)
		}
	}
	for id, i := range read(t, watched, len(types), instance.Gone) {
		if i.UserData != "boot" {
			t.Errorf("instance %s boots from %q", id, i.UserData)
		}
	}
}

// A question that nobody answers switches nothing off.
func TestWatchThroughAnOutage(t *testing.T) {
	server, seen := other(t, nil)
	run(t, server, "m5.large")
	watched := seen.Watch(t.Context())
	read(t, watched, 1, instance.Running)
	server.Throttle(300 * time.Millisecond)
	select {
	case i := <-watched:
		t.Errorf("told of %+v while EC2 said nothing", i)
	case <-time.After(300 * time.Millisecond):
	}
	run(t, server, "m5.large")
	read(t, watched, 1, instance.Running)
}

func TestPrepareABareAccount(t *testing.T) {
	server, seen := other(t, func(c *aws.Config) { c.Bare = true })
	first, err := seen.Prepare(t.Context(), "1.36")
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Notes) != 6 || !first.Queue || first.ImageID == "" {
		t.Errorf("prepared %+v", first)
	}
	subnets, err := client(server).DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{
		{Name: awssdk.String("tag:karpenter.sh/discovery"), Values: []string{"test"}},
	}})
	if err != nil || len(subnets.Subnets) != 3 {
		t.Errorf("%d subnets are tagged (%v), want 3", len(subnets.Subnets), err)
	}
	// The second time all is there but what cannot be made.
	again, err := seen.Prepare(t.Context(), "1.36")
	if err != nil || len(again.Notes) != 1 || again.ImageID != first.ImageID || !again.Queue {
		t.Errorf("prepared again: %+v, %v", again, err)
	}
}

// What an AWS lacks is told, and is no reason to give up.
func TestPrepareWithoutHalfOfAWS(t *testing.T) {
	_, seen := other(t, func(c *aws.Config) { c.Lacks = []string{"eks", "sqs", "ssm", "iam", "pricing"} })
	got, err := seen.Prepare(t.Context(), "1.36")
	if err != nil || got.Queue || got.ImageID == "" {
		t.Fatalf("prepared %+v, %v", got, err)
	}
	text := strings.Join(got.Notes, "\n")
	for _, part := range []string{"no EKS cluster", "no interruption queue", "the role KarpenterNodeRole-test", "al2023@latest"} {
		if !strings.Contains(text, part) {
			t.Errorf("the notes do not say %q:\n%s", part, text)
		}
	}
}

func TestPrepareOwn(t *testing.T) {
	_, seen := other(t, nil)
	if got, err := seen.Prepare(t.Context(), "1.36"); err != nil || len(got.Notes) > 0 || got.ImageID != "" {
		t.Errorf("where all is there: %+v, %v", got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                                    "want a URL",
		"localhost:5000":                      "want a URL",
		"https://ec2.us-east-1.amazonaws.com": "is the real AWS",
		"https://ec2.us-east-1.api.aws:443/":  "is the real AWS",
		"https://ec2.cn-north-1.amazonaws.com.cn": "is the real AWS",
	} {
		if _, err := foreign.New(foreign.Config{Endpoint: endpoint, ClusterName: "test"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", endpoint, err, want)
		}
	}
}
