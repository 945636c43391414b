package aws_test

import (
	"encoding/base64"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"
)

const userData = "#!/bin/bash\necho hello\n"

// recommended reads the id of the recommended AMI, as a launcher does.
func recommended(t *testing.T, client *ec2.Client) string {
	t.Helper()
	options := client.Options()
	out, err := ssm.New(ssm.Options{Region: options.Region, BaseEndpoint: options.BaseEndpoint, Credentials: options.Credentials}).
		GetParameter(t.Context(), &ssm.GetParameterInput{
			Name: awssdk.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"),
		})
	if err != nil {
		t.Fatal(err)
	}
	return awssdk.ToString(out.Parameter.Value)
}

func templateInput(t *testing.T, client *ec2.Client, name string) *ec2.CreateLaunchTemplateInput {
	t.Helper()
	groups, err := client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{
		Filters: []ec2types.Filter{filter("tag:karpenter.sh/discovery", "test")},
	})
	if err != nil || len(groups.SecurityGroups) != 1 {
		t.Fatalf("got %d security groups (%v), want the cluster's", len(groups.SecurityGroups), err)
	}
	return &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: awssdk.String(name),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId:          awssdk.String(recommended(t, client)),
			UserData:         awssdk.String(base64.StdEncoding.EncodeToString([]byte(userData))),
			SecurityGroupIds: []string{awssdk.ToString(groups.SecurityGroups[0].GroupId)},
			BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
				DeviceName: awssdk.String("/dev/xvda"),
				Ebs:        &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: awssdk.Int32(50), VolumeType: ec2types.VolumeTypeGp3},
			}},
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpPutResponseHopLimit: awssdk.Int32(1)},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{
				ResourceType: ec2types.ResourceTypeInstance,
				Tags:         []ec2types.Tag{{Key: awssdk.String("from"), Value: awssdk.String("template")}},
			}},
		},
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeLaunchTemplate,
			Tags:         []ec2types.Tag{{Key: awssdk.String("class"), Value: awssdk.String("default")}},
		}},
	}
}

func TestLaunchTemplates(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	in := templateInput(t, client, "slipway.dev/one")

	dry := *in
	dry.DryRun = awssdk.Bool(true)
	_, err := client.CreateLaunchTemplate(t.Context(), &dry)
	wantCode(t, err, "DryRunOperation")

	made, err := client.CreateLaunchTemplate(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CreateLaunchTemplate(t.Context(), templateInput(t, client, "slipway.dev/one"))
	wantCode(t, err, "InvalidLaunchTemplateName.AlreadyExistsException")

	found, err := client.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{
		Filters: []ec2types.Filter{filter("tag:class", "default"), filter("launch-template-name", "slipway.dev/*")},
	})
	if err != nil || len(found.LaunchTemplates) != 1 {
		t.Fatalf("got %d launch templates (%v), want 1", len(found.LaunchTemplates), err)
	}
	if got, want := awssdk.ToString(found.LaunchTemplates[0].LaunchTemplateId), awssdk.ToString(made.LaunchTemplate.LaunchTemplateId); got != want {
		t.Errorf("got launch template %s, want %s", got, want)
	}
	checkVersions(t, client, in)

	byID := &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: made.LaunchTemplate.LaunchTemplateId}
	if _, err := client.DeleteLaunchTemplate(t.Context(), byID); err != nil {
		t.Fatal(err)
	}
	_, err = client.DeleteLaunchTemplate(t.Context(), byID)
	wantCode(t, err, "InvalidLaunchTemplateId.NotFound")
	_, err = client.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"slipway.dev/one"}})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
}

// checkVersions compares what the template's only version says with what was asked.
func checkVersions(t *testing.T, client *ec2.Client, in *ec2.CreateLaunchTemplateInput) {
	t.Helper()
	out, err := client.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateName: in.LaunchTemplateName, Versions: []string{"$Latest"},
	})
	if err != nil || len(out.LaunchTemplateVersions) != 1 {
		t.Fatalf("got %d versions (%v), want 1", len(out.LaunchTemplateVersions), err)
	}
	got, want := out.LaunchTemplateVersions[0].LaunchTemplateData, in.LaunchTemplateData
	if diff := cmp.Diff(want.SecurityGroupIds, got.SecurityGroupIds); diff != "" {
		t.Errorf("security groups (-want +got):\n%s", diff)
	}
	if awssdk.ToString(got.ImageId) != awssdk.ToString(want.ImageId) || awssdk.ToString(got.UserData) != awssdk.ToString(want.UserData) {
		t.Errorf("got image %q and user data %q", awssdk.ToString(got.ImageId), awssdk.ToString(got.UserData))
	}
	if len(got.BlockDeviceMappings) != 1 || awssdk.ToInt32(got.BlockDeviceMappings[0].Ebs.VolumeSize) != 50 {
		t.Errorf("got block devices %+v", got.BlockDeviceMappings)
	}
	if len(got.TagSpecifications) != 1 || awssdk.ToString(got.TagSpecifications[0].Tags[0].Value) != "template" {
		t.Errorf("got tag specifications %+v", got.TagSpecifications)
	}
	if awssdk.ToInt32(got.MetadataOptions.HttpPutResponseHopLimit) != 1 {
		t.Errorf("got metadata options %+v", got.MetadataOptions)
	}
}

func TestLaunchTemplatesRefused(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	for name, c := range map[string]struct {
		change func(*ec2.CreateLaunchTemplateInput)
		code   string
	}{
		"a bad name":                   {func(in *ec2.CreateLaunchTemplateInput) { in.LaunchTemplateName = awssdk.String("a b c") }, "InvalidLaunchTemplateName.MalformedException"},
		"user data that is not base64": {func(in *ec2.CreateLaunchTemplateInput) { in.LaunchTemplateData.UserData = awssdk.String("%%%") }, "InvalidUserData.Malformed"},
		"groups beside an interface": {func(in *ec2.CreateLaunchTemplateInput) {
			in.LaunchTemplateData.NetworkInterfaces = []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: awssdk.Int32(0)}}
		}, "InvalidParameterCombination"},
	} {
		t.Run(name, func(t *testing.T) {
			in := templateInput(t, client, "slipway.dev/two")
			c.change(in)
			_, err := client.CreateLaunchTemplate(t.Context(), in)
			wantCode(t, err, c.code)
		})
	}
	if n := len(server.Calls()); n == 0 {
		t.Error("no call was recorded")
	}
}

func TestTags(t *testing.T) {
	server := start(t, nil)
	client := ec2Client(server)
	id := launched(createFleet(t, server, fleetInput(t, server, 1, "m5.large")))[0]
	tag := func(key, value string) ec2types.Tag { return ec2types.Tag{Key: &key, Value: &value} }

	if _, err := client.CreateTags(t.Context(), &ec2.CreateTagsInput{
		Resources: []string{id}, Tags: []ec2types.Tag{tag("karpenter.sh/nodeclaim", "default-abcde"), tag("a.b.c", "")},
	}); err != nil {
		t.Fatal(err)
	}
	if got := instance(t, server, id).Tags["karpenter.sh/nodeclaim"]; got != "default-abcde" {
		t.Errorf("the tag's value is %q", got)
	}
	out, err := client.DescribeTags(t.Context(), &ec2.DescribeTagsInput{Filters: []ec2types.Filter{
		filter("resource-id", id), filter("key", "karpenter.sh/*"),
	}})
	if err != nil || len(out.Tags) != 2 {
		t.Fatalf("got %d tags (%v), want the pool's and the claim's", len(out.Tags), err)
	}
	if _, err := client.DeleteTags(t.Context(), &ec2.DeleteTagsInput{
		Resources: []string{id}, Tags: []ec2types.Tag{{Key: awssdk.String("a.b.c")}, tag("karpenter.sh/nodeclaim", "another")},
	}); err != nil {
		t.Fatal(err)
	}
	tags := instance(t, server, id).Tags
	if _, ok := tags["a.b.c"]; ok || tags["karpenter.sh/nodeclaim"] == "" {
		t.Errorf("after DeleteTags the tags are %v", tags)
	}
	for name, c := range map[string]struct {
		id, key, code string
	}{
		"no such instance": {"i-00000000000000000", "a", "InvalidInstanceID.NotFound"},
		"no id at all":     {"i-xyz", "a", "InvalidInstanceID.Malformed"},
		"a reserved key":   {id, "aws:mine", "InvalidParameterValue"},
	} {
		_, err := client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{c.id}, Tags: []ec2types.Tag{tag(c.key, "v")}})
		t.Log(name)
		wantCode(t, err, c.code)
	}
}
