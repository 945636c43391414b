package aws_test

import (
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/policy"
	"github.com/slipway-k8s/slipway/manifests"
)

// restricted starts a server on which the tests' clients may do what the launcher's policy allows.
func restricted(t *testing.T) *aws.Server {
	t.Helper()
	document, err := manifests.LauncherPolicy(manifests.PolicyValues{
		Region: "us-east-1", AccountID: "123456789012", ClusterName: "test", NodeRole: "KarpenterNodeRole-test", InterruptionQueue: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := policy.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(c *aws.Config) {
		c.Policies = map[string]policy.Policy{"AKIATEST": parsed}
		c.Roles = []string{"KarpenterNodeRole-test", "Administrator"}
	})
}

func tagList(pairs ...string) []ec2types.Tag {
	var out []ec2types.Tag
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, ec2types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return out
}

// clusterTags are those by which the policy knows what is the launcher's.
func clusterTags() []ec2types.Tag {
	return tagList("kubernetes.io/cluster/test", "owned", "eks:eks-cluster-name", "test", "karpenter.sh/nodepool", "default")
}

// wantDenied fails unless err says that an action is not allowed.
func wantDenied(t *testing.T, err error, code, action string) {
	t.Helper()
	wantCode(t, err, code)
	if !strings.Contains(err.Error(), "is not authorized to perform: "+action+" on resource: ") {
		t.Errorf("%v does not name %s", err, action)
	}
}

// ownTemplate makes a launch template as the launcher does; change adapts it.
func ownTemplate(t *testing.T, client *ec2.Client, name string, change func(*ec2.CreateLaunchTemplateInput)) error {
	t.Helper()
	in := templateInput(t, client, name)
	in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "launch-template", Tags: clusterTags()}}
	in.LaunchTemplateData.TagSpecifications = []ec2types.LaunchTemplateTagSpecificationRequest{
		{ResourceType: "network-interface", Tags: clusterTags()}, {ResourceType: "spot-instances-request", Tags: clusterTags()},
	}
	if change != nil {
		change(in)
	}
	_, err := client.CreateLaunchTemplate(t.Context(), in)
	return err
}

// ownFleet is a launch of one instance as the launcher asks for it.
func ownFleet(t *testing.T, server *aws.Server, template string) *ec2.CreateFleetInput {
	t.Helper()
	in := fleetInput(t, start(t, nil), 1, "m5.large")
	for i := range in.LaunchTemplateConfigs[0].Overrides {
		in.LaunchTemplateConfigs[0].Overrides[i].SubnetId = awssdk.String(server.Resources().Subnets[i].ID)
	}
	in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateName = &template
	in.TagSpecifications = nil
	for _, kind := range []ec2types.ResourceType{"fleet", "instance", "volume"} {
		in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{ResourceType: kind, Tags: clusterTags()})
	}
	return asSpot(in, "price-capacity-optimized")
}

func TestPolicyOfLaunches(t *testing.T) {
	server := restricted(t)
	client := ec2Client(server)
	// What is not tagged as the launcher's cannot be made.
	err := ownTemplate(t, client, "a", func(in *ec2.CreateLaunchTemplateInput) {
		in.TagSpecifications[0].Tags = in.TagSpecifications[0].Tags[:2]
	})
	wantDenied(t, err, "UnauthorizedOperation", "ec2:CreateLaunchTemplate")
	if err := ownTemplate(t, client, "own", nil); err != nil {
		t.Fatal(err)
	}
	bare := ownFleet(t, server, "own")
	bare.TagSpecifications = bare.TagSpecifications[:1]
	_, err = client.CreateFleet(t.Context(), bare)
	wantDenied(t, err, "UnauthorizedOperation", "ec2:CreateFleet")
	// Nor can network interfaces, whose tags only the launch template can give.
	if err := ownTemplate(t, client, "untagged", func(in *ec2.CreateLaunchTemplateInput) {
		in.LaunchTemplateData.TagSpecifications = in.LaunchTemplateData.TagSpecifications[1:]
	}); err != nil {
		t.Fatal(err)
	}
	_, err = client.CreateFleet(t.Context(), ownFleet(t, server, "untagged"))
	wantDenied(t, err, "UnauthorizedOperation", "ec2:CreateFleet")
	out, err := client.CreateFleet(t.Context(), ownFleet(t, server, "own"))
	if err != nil || len(launched(out)) != 1 {
		t.Fatalf("a launch with all tags: %+v, %v", out, err)
	}
	// What was launched may be tagged and ended; what others launched may not.
	id := launched(out)[0]
	if _, err := client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList("Name", "a")}); err != nil {
		t.Error(err)
	}
	_, err = client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList("Owner", "a")})
	wantDenied(t, err, "UnauthorizedOperation", "ec2:CreateTags")
	if _, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Error(err)
	}
	managed, err := server.RunManaged("system", "t3.medium", "us-east-1a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{managed.ID}})
	wantDenied(t, err, "UnauthorizedOperation", "ec2:TerminateInstances")
	_, err = client.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: awssdk.String("own")})
	if err != nil {
		t.Error(err)
	}
	server.SetPolicy("AKIATEST", nil)
	if _, err := client.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{}); err != nil {
		t.Errorf("without a policy: %v", err)
	}
}

// An instance profile with a role that may not be passed launches nothing; EC2 says so for each pool.
func TestPolicyOfRoles(t *testing.T) {
	server := restricted(t)
	roles, client := iam.NewFromConfig(config(server)), ec2Client(server)
	tags := []iamtypes.Tag{{Key: awssdk.String("karpenter.k8s.aws/ec2nodeclass"), Value: awssdk.String("default")}}
	create := &iam.CreateInstanceProfileInput{InstanceProfileName: awssdk.String("test"), Tags: tags}
	_, err := roles.CreateInstanceProfile(t.Context(), create)
	wantDenied(t, err, "AccessDenied", "iam:CreateInstanceProfile")
	for key, value := range map[string]string{
		"kubernetes.io/cluster/test": "owned", "eks:eks-cluster-name": "test", "topology.kubernetes.io/region": "us-east-1",
	} {
		create.Tags = append(create.Tags, iamtypes.Tag{Key: &key, Value: &value})
	}
	if _, err := roles.CreateInstanceProfile(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	add := func(role string) error {
		_, err := roles.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{
			InstanceProfileName: create.InstanceProfileName, RoleName: &role,
		})
		return err
	}
	wantDenied(t, add("Administrator"), "AccessDenied", "iam:PassRole")
	server.SetPolicy("AKIATEST", nil)
	if err := add("Administrator"); err != nil {
		t.Fatal(err)
	}
	only, err := policy.Parse([]byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotAction":"iam:PassRole","Resource":"*"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	server.SetPolicy("AKIATEST", &only)
	if err := ownTemplate(t, client, "administrator", func(in *ec2.CreateLaunchTemplateInput) {
		in.LaunchTemplateData.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: create.InstanceProfileName}
	}); err != nil {
		t.Fatal(err)
	}
	out, err := client.CreateFleet(t.Context(), ownFleet(t, server, "administrator"))
	if err != nil {
		t.Fatal(err)
	}
	if len(launched(out)) > 0 || len(out.Errors) == 0 || awssdk.ToString(out.Errors[0].ErrorCode) != "UnauthorizedOperation" ||
		!strings.Contains(awssdk.ToString(out.Errors[0].ErrorMessage), "iam:PassRole") {
		t.Errorf("a launch that passes a role that may not be passed: %+v", out)
	}
}

// The other services know their callers too.
func TestPolicyOfOtherServices(t *testing.T) {
	server := restricted(t)
	cfg := config(server)
	queue, parameters := sqs.NewFromConfig(cfg), ssm.NewFromConfig(cfg)
	if _, err := queue.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: awssdk.String("test")}); err != nil {
		t.Error(err)
	}
	_, err := queue.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: awssdk.String("other")})
	wantDenied(t, err, "AccessDenied", "sqs:GetQueueUrl")
	_, err = parameters.GetParameter(t.Context(), &ssm.GetParameterInput{Name: awssdk.String("/secret")})
	wantDenied(t, err, "AccessDeniedException", "ssm:GetParameter")
	_, err = pricing.NewFromConfig(cfg).GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: awssdk.String("AmazonEC2"), MaxResults: awssdk.Int32(1)})
	if err != nil {
		t.Error(err)
	}
	_, err = iam.NewFromConfig(cfg).GetRole(t.Context(), &iam.GetRoleInput{RoleName: awssdk.String("KarpenterNodeRole-test")})
	wantDenied(t, err, "AccessDenied", "iam:GetRole")
	_, err = ec2Client(server).DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	wantDenied(t, err, "UnauthorizedOperation", "ec2:DescribeVpcs")
}
