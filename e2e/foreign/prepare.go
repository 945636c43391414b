package foreign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// discovery is the tag by which node classes find subnets and security groups.
const discovery = "karpenter.sh/discovery"

// Prepared is what Prepare found or made.
type Prepared struct {
	// Queue says that there is an SQS queue of the cluster's name.
	Queue bool
	// ImageID is an AMI for node classes where the aliases of EKS's AMIs lead nowhere, empty where they do not.
	ImageID string
	// Notes are lines for the user: what was made, what is missing.
	Notes []string
}

func (p *Prepared) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// Prepare makes what a cluster of the Kubernetes version, such as 1.36, needs and is not there: the discovery tag on the default VPC's subnets and security group,
// the nodes' role, the interruption queue, the EKS cluster. What the AWS cannot make is noted, and an error only where
// nothing could be launched without.
func (a *AWS) Prepare(ctx context.Context, version string) (Prepared, error) {
	var out Prepared
	subnets, err := a.subnets(ctx, &out)
	if err != nil {
		return out, err
	}
	if err := a.securityGroups(ctx, subnets, &out); err != nil {
		return out, err
	}
	a.role(ctx, &out)
	a.queue(ctx, &out)
	a.cluster(ctx, version, subnets, &out)
	return out, a.image(ctx, version, &out)
}

// subnets returns those of the cluster; where none is tagged, the default VPC's become so.
func (a *AWS) subnets(ctx context.Context, out *Prepared) ([]ec2types.Subnet, error) {
	describe := func(f ec2types.Filter) ([]ec2types.Subnet, error) {
		answer, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{f}})
		if err != nil {
			return nil, fmt.Errorf("describing subnets: %w", err)
		}
		return answer.Subnets, nil
	}
	found, err := describe(filter("tag:"+discovery, a.cfg.ClusterName))
	if err != nil || len(found) > 0 {
		return found, err
	}
	if found, err = describe(filter("default-for-az", "true")); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no subnet with the tag %s=%s, and no default VPC to tag", a.cfg.Endpoint, discovery, a.cfg.ClusterName)
	}
	// One VPC: a cluster does not span two.
	found = slices.DeleteFunc(found, func(s ec2types.Subnet) bool { return awssdk.ToString(s.VpcId) != awssdk.ToString(found[0].VpcId) })
	var ids []string
	for _, s := range found {
		ids = append(ids, awssdk.ToString(s.SubnetId))
	}
	out.note("tagged the %d subnets of the default VPC %s=%s", len(ids), discovery, a.cfg.ClusterName)
	return found, a.tag(ctx, ids)
}

func (a *AWS) securityGroups(ctx context.Context, subnets []ec2types.Subnet, out *Prepared) error {
	vpc := awssdk.ToString(subnets[0].VpcId)
	for _, named := range []string{"", "default"} {
		filters := []ec2types.Filter{filter("vpc-id", vpc), filter("tag:"+discovery, a.cfg.ClusterName)}
		if named != "" {
			filters[1] = filter("group-name", named)
		}
		answer, err := a.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: filters})
		switch {
		case err != nil:
			return fmt.Errorf("describing security groups: %w", err)
		case len(answer.SecurityGroups) > 0 && named == "":
			return nil
		case len(answer.SecurityGroups) > 0:
			out.note("tagged the default security group %s=%s", discovery, a.cfg.ClusterName)
			return a.tag(ctx, []string{awssdk.ToString(answer.SecurityGroups[0].GroupId)})
		}
	}
	return fmt.Errorf("VPC %s has no security group with the tag %s=%s, and no default one to tag", vpc, discovery, a.cfg.ClusterName)
}

func (a *AWS) tag(ctx context.Context, ids []string) error {
	_, err := a.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: []ec2types.Tag{
		{Key: awssdk.String(discovery), Value: awssdk.String(a.cfg.ClusterName)},
	}})
	if err != nil {
		return fmt.Errorf("tagging %s: %w", strings.Join(ids, ", "), err)
	}
	return nil
}

func (a *AWS) role(ctx context.Context, out *Prepared) {
	if _, err := a.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: &a.cfg.Role}); err == nil {
		return
	}
	_, err := a.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &a.cfg.Role, AssumeRolePolicyDocument: awssdk.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)})
	if err != nil {
		out.note("the role %s cannot be made: %v", a.cfg.Role, err)
		return
	}
	out.note("made the role %s", a.cfg.Role)
}

func (a *AWS) queue(ctx context.Context, out *Prepared) {
	if _, err := a.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &a.cfg.ClusterName}); err == nil {
		out.Queue = true
		return
	}
	if _, err := a.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &a.cfg.ClusterName}); err != nil {
		out.note("no interruption queue, and none can be made: %v", err)
		return
	}
	out.Queue = true
	out.note("made the queue %s", a.cfg.ClusterName)
}

// cluster creates an EKS cluster, from which the launcher reads the Kubernetes version. The sandbox passes the API server's
// endpoint to the launcher.
func (a *AWS) cluster(ctx context.Context, version string, subnets []ec2types.Subnet, out *Prepared) {
	if _, err := a.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &a.cfg.ClusterName}); err == nil {
		return
	}
	var ids []string
	for _, s := range subnets {
		ids = append(ids, awssdk.ToString(s.SubnetId))
	}
	_, err := a.eks.CreateCluster(ctx, &eks.CreateClusterInput{
		Name: &a.cfg.ClusterName, Version: &version, RoleArn: awssdk.String("arn:aws:iam::123456789012:role/" + a.cfg.Role),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: ids},
	})
	if err != nil {
		out.note("no EKS cluster %s, and none can be made: %v", a.cfg.ClusterName, err)
		return
	}
	out.note("made the EKS cluster %s, version %s", a.cfg.ClusterName, version)
}

// image finds an AMI for classes to name by its id where there are no public parameters of EKS.
func (a *AWS) image(ctx context.Context, version string, out *Prepared) error {
	path := "/aws/service/eks/optimized-ami/" + version + "/amazon-linux-2023/x86_64/standard/recommended/image_id"
	if _, err := a.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &path}); err == nil {
		return nil
	}
	var best ec2types.Image
	pages := ec2.NewDescribeImagesPaginator(a.ec2, &ec2.DescribeImagesInput{Filters: []ec2types.Filter{
		filter("architecture", "x86_64"), filter("state", "available"),
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("describing images: %w", err)
		}
		for _, i := range page.Images {
			if rank(i) > rank(best) {
				best = i
			}
		}
	}
	if rank(best) == 0 {
		return errors.New("there is no AMI for Linux on x86_64: register one")
	}
	out.ImageID = awssdk.ToString(best.ImageId)
	out.note("no SSM parameter names EKS's AMIs, so aliases such as al2023@latest select nothing: the sample class takes %s (%s)",
		out.ImageID, awssdk.ToString(best.Name))
	return nil
}

// rank says how much an AMI looks like a node's; 0 if not at all.
func rank(i ec2types.Image) int {
	name := awssdk.ToString(i.Name)
	switch {
	case i.ImageId == nil || i.Platform != "" || strings.HasPrefix(name, "Windows"):
		return 0
	case strings.HasPrefix(name, "amazon-eks-node-al2023"):
		return 4
	case strings.HasPrefix(name, "amazon-eks-node"):
		return 3
	case strings.HasPrefix(name, "al2023-ami"), strings.HasPrefix(name, "amzn2-ami-hvm"):
		return 2
	}
	return 1
}

func filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}
