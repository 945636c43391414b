package aws_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/cloudtest"
)

// elsewhere returns a fixture at an endpoint that is not the sandbox's. It has its own network, role and queue, under a unique cluster name.
// What the endpoint cannot simulate, such as a lack of capacity, is not part of its contract.
func elsewhere(t *testing.T) cloudtest.Fixture {
	t.Helper()
	cfg, err := aws.LoadConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	cfg.HTTPClient = client
	t.Cleanup(client.CloseIdleConnections)
	name := "slipway-test-" + uuid.NewString()[:8]
	discovery := map[string]string{"karpenter.sh/discovery": name}
	other := ec2.NewFromConfig(cfg)
	makeNetwork(t, other, discovery)
	makeRole(t, iam.NewFromConfig(cfg), name)
	send := makeQueue(t, sqs.NewFromConfig(cfg), name)
	c, err := aws.New(aws.Config{
		AWS: cfg, ClusterName: name, InterruptionQueue: name, IsolatedVPC: true,
		ClusterEndpoint: "https://prod.example.com", ClusterCA: base64.StdEncoding.EncodeToString([]byte("certificate")),
		ServiceCIDR: "10.100.0.0/16", KubernetesVersion: "1.36",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, c) })
	image := findImage(t, other)
	return cloudtest.Fixture{
		Cloud: c, Patience: time.Minute,
		Lacks: func(f cloudtest.Feature) bool {
			if f == cloudtest.ClientTokens {
				return launchesTwice(t, other, image)
			}
			return tagsWhatIsNot(t, other)
		},
		Interrupt: func(id string) { send(spotWarning(id)) },
		Garble:    func() { send("this is not JSON {") },
		Class: &awsv1.EC2NodeClass{
			ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "8f3c0f3a"},
			Spec: awsv1.EC2NodeClassSpec{
				AMIFamily:                  awssdk.String(awsv1.AMIFamilyAL2023),
				AMISelectorTerms:           []awsv1.AMISelectorTerm{{ID: image}},
				SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: discovery}},
				SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: discovery}},
				Role:                       name,
			},
		},
	}
}

func tagged(kind ec2types.ResourceType, tags map[string]string) []ec2types.TagSpecification {
	out := ec2types.TagSpecification{ResourceType: kind}
	for key, value := range tags {
		out.Tags = append(out.Tags, ec2types.Tag{Key: &key, Value: &value})
	}
	return []ec2types.TagSpecification{out}
}

// makeNetwork makes a VPC with a subnet in each of two zones, and a security group.
func makeNetwork(t *testing.T, client *ec2.Client, tags map[string]string) {
	t.Helper()
	vpc, err := client.CreateVpc(t.Context(), &ec2.CreateVpcInput{CidrBlock: awssdk.String("10.1.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	zones, err := client.DescribeAvailabilityZones(t.Context(), &ec2.DescribeAvailabilityZonesInput{})
	if err != nil || len(zones.AvailabilityZones) < 2 {
		t.Fatalf("zones: %v, %v", zones, err)
	}
	for i, zone := range zones.AvailabilityZones[:2] {
		_, err := client.CreateSubnet(t.Context(), &ec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, AvailabilityZone: zone.ZoneName, CidrBlock: awssdk.String(fmt.Sprintf("10.1.%d.0/24", i)),
			TagSpecifications: tagged(ec2types.ResourceTypeSubnet, tags),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = client.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: awssdk.String("nodes"), Description: awssdk.String("nodes"), VpcId: vpc.Vpc.VpcId,
		TagSpecifications: tagged(ec2types.ResourceTypeSecurityGroup, tags),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// launchesTwice asks the endpoint itself, with none of the launcher's code, whether it ignores client tokens.
func launchesTwice(t *testing.T, client *ec2.Client, image string) bool {
	t.Helper()
	in := &ec2.RunInstancesInput{
		ImageId: &image, InstanceType: ec2types.InstanceTypeM5Large, MinCount: awssdk.Int32(1), MaxCount: awssdk.Int32(1),
		ClientToken: awssdk.String(uuid.NewString()),
	}
	launched := map[string]bool{}
	for range 2 {
		out, err := client.RunInstances(t.Context(), in)
		if err != nil || len(out.Instances) != 1 {
			t.Fatalf("asking for one instance: %+v, %v", out, err)
		}
		launched[awssdk.ToString(out.Instances[0].InstanceId)] = true
	}
	_, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: slices.Collect(maps.Keys(launched))})
	if err != nil {
		t.Error(err)
	}
	return len(launched) == 2
}

// tagsWhatIsNot asks the endpoint itself whether it takes tags for an instance that does not exist.
func tagsWhatIsNot(t *testing.T, client *ec2.Client) bool {
	t.Helper()
	_, err := client.CreateTags(t.Context(), &ec2.CreateTagsInput{
		Resources: []string{"i-0fffffffffffffff0"}, Tags: []ec2types.Tag{{Key: awssdk.String("a"), Value: awssdk.String("b")}},
	})
	return err == nil
}

// findImage returns one of Amazon's images.
func findImage(t *testing.T, client *ec2.Client) string {
	t.Helper()
	images, err := client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{
		Owners: []string{"amazon"}, Filters: []ec2types.Filter{
			{Name: awssdk.String("architecture"), Values: []string{"x86_64"}},
			{Name: awssdk.String("virtualization-type"), Values: []string{"hvm"}},
			{Name: awssdk.String("state"), Values: []string{"available"}},
		},
	})
	if err != nil || len(images.Images) == 0 {
		t.Fatalf("no image of Amazon's at this endpoint: %v", err)
	}
	return awssdk.ToString(images.Images[0].ImageId)
}

func makeRole(t *testing.T, client *iam.Client, name string) {
	t.Helper()
	_, err := client.CreateRole(t.Context(), &iam.CreateRoleInput{
		RoleName: &name, AssumeRolePolicyDocument: awssdk.String(`{"Version":"2012-10-17","Statement":[]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// makeQueue makes a queue and returns what sends a message to it.
func makeQueue(t *testing.T, client *sqs.Client, name string) func(body string) {
	t.Helper()
	queue, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return func(body string) {
		t.Helper()
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
}

// end terminates what a test has launched.
func end(t *testing.T, c *aws.Cloud) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := c.Instances(ctx, cloud.Selector{})
	if err != nil {
		t.Error(err)
	}
	var ids []string
	for _, i := range left {
		ids = append(ids, i.ID)
	}
	if err := c.Terminate(ctx, ids); err != nil {
		t.Error(err)
	}
}
