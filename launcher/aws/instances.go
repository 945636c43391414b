package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const (
	// filterValues is how many values one filter takes (EC2 user guide, "List and filter using the CLI and API").
	filterValues = 200
	// terminateAtOnce is how many instances one call ends; EC2 takes 1,000 and advises fewer.
	terminateAtOnce = 500
)

// Instances implements cloud.Cloud. Ids are asked for with a filter: an id that EC2 does not know (yet) is missing from
// the answer and no error.
func (c *Cloud) Instances(ctx context.Context, sel cloud.Selector) (_ []cloud.Instance, err error) {
	defer c.metrics.measure("List")(&err)
	// Managed node groups carry kubernetes.io/cluster/NAME too: these two tags are only on what the class launched.
	ours := []ec2types.Filter{
		filter("tag:"+awsv1.EKSClusterNameTagKey, c.cfg.ClusterName), filter("tag-key", awsv1.NodeClassTagKey),
	}
	if len(sel.IDs) == 0 && len(sel.LaunchIDs) == 0 {
		return c.describeInstances(ctx, ours)
	}
	var out []cloud.Instance
	seen := map[string]bool{}
	for _, by := range []struct {
		name   string
		values []string
	}{{"instance-id", sel.IDs}, {"tag:" + catalog.LaunchAnnotation, sel.LaunchIDs}} {
		for chunk := range slices.Chunk(by.values, filterValues) {
			found, err := c.describeInstances(ctx, append(slices.Clone(ours), filter(by.name, chunk...)))
			if err != nil {
				return nil, err
			}
			for _, i := range found {
				if !seen[i.ID] {
					seen[i.ID] = true
					out = append(out, i)
				}
			}
		}
	}
	return out, nil
}

func (c *Cloud) describeInstances(ctx context.Context, filters []ec2types.Filter) ([]cloud.Instance, error) {
	var out []cloud.Instance
	pages := ec2.NewDescribeInstancesPaginator(c.ec2, &ec2.DescribeInstancesInput{
		Filters: filters, MaxResults: awssdk.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if isInstanceUnknown(code(err)) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("describing instances: %w", err)
		}
		for _, reservation := range page.Reservations {
			for _, i := range reservation.Instances {
				out = append(out, instanceOf(i))
			}
		}
	}
	c.seen.note(out)
	return out, nil
}

func instanceOf(in ec2types.Instance) cloud.Instance {
	out := cloud.Instance{
		ID: awssdk.ToString(in.InstanceId), InstanceType: string(in.InstanceType), ImageID: awssdk.ToString(in.ImageId),
		PrivateDNSName: awssdk.ToString(in.PrivateDnsName), PrivateIP: awssdk.ToString(in.PrivateIpAddress),
		LaunchTime: awssdk.ToTime(in.LaunchTime), CapacityType: karpv1.CapacityTypeOnDemand, Tags: map[string]string{},
	}
	if in.InstanceLifecycle == ec2types.InstanceLifecycleTypeSpot {
		out.CapacityType = karpv1.CapacityTypeSpot
	}
	if in.State != nil {
		out.State = cloud.InstanceState(in.State.Name)
	}
	if in.Placement != nil {
		out.Zone, out.ZoneID = awssdk.ToString(in.Placement.AvailabilityZone), awssdk.ToString(in.Placement.AvailabilityZoneId)
	}
	for _, t := range in.Tags {
		out.Tags[awssdk.ToString(t.Key)] = awssdk.ToString(t.Value)
	}
	return out
}

// Tag implements cloud.Cloud.
func (c *Cloud) Tag(ctx context.Context, instanceID string, tags map[string]string) (err error) {
	defer c.metrics.measure("Tag")(&err)
	_, err = c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{instanceID}, Tags: ec2Tags(tags)})
	switch {
	case isInstanceUnknown(code(err)):
		return &cloud.NotFoundError{InstanceID: instanceID}
	case err != nil:
		return fmt.Errorf("tagging instance %s: %w", instanceID, err)
	}
	return nil
}

// Terminate implements cloud.Cloud. One id that EC2 refuses spoils a whole call: such a call is split until the rest is
// ended.
func (c *Cloud) Terminate(ctx context.Context, instanceIDs []string) (err error) {
	defer c.metrics.measure("Delete")(&err)
	var errs []error
	for chunk := range slices.Chunk(instanceIDs, terminateAtOnce) {
		errs = append(errs, c.terminate(ctx, chunk))
	}
	return errors.Join(errs...)
}

func (c *Cloud) terminate(ctx context.Context, ids []string) error {
	_, err := c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	switch {
	case err == nil:
		return nil
	case len(ids) > 1 && !isTransient(err):
		half := len(ids) / 2
		return errors.Join(c.terminate(ctx, ids[:half]), c.terminate(ctx, ids[half:]))
	case len(ids) == 1 && isInstanceUnknown(code(err)):
		return nil
	case len(ids) == 1:
		return fmt.Errorf("terminating instance %s: %w", ids[0], err)
	}
	return fmt.Errorf("terminating %d instances: %w", len(ids), err)
}
