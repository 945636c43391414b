package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

const (
	// filterValues is the maximum number of values of one filter (EC2 user guide, "List and filter using the CLI and API").
	filterValues = 200
	// terminateAtOnce is the number of instances in one TerminateInstances call; EC2 accepts 1,000 and recommends fewer.
	terminateAtOnce = 500
	// tagAtOnce is the maximum number of resources in one CreateTags call (API reference, CreateTags: at most 1,000, recommended 25 or
	// fewer).
	tagAtOnce = 25
)

// Instances implements cloud.Cloud. IDs are requested with a filter: an ID that does not exist (yet) is missing from the answer and is not
// an error. They need none of the tags that a list needs, as in Karpenter (pkg/providers/instance, Get): an instance that has lost one still runs.
func (c *Cloud) Instances(ctx context.Context, sel cloud.Selector) (_ []cloud.Instance, err error) {
	defer c.metrics.measure("List")(&err)
	if len(sel.IDs) == 0 && len(sel.LaunchIDs) == 0 {
		return c.describeInstances(ctx, c.ours())
	}
	out, seen := []cloud.Instance(nil), map[string]bool{}
	add := func(list []cloud.Instance) {
		for _, i := range list {
			if !seen[i.ID] {
				seen[i.ID] = true
				out = append(out, i)
			}
		}
	}
	if len(sel.IDs) > 0 {
		found, err := c.described.do(ctx, sel.IDs)
		if err != nil {
			return nil, err
		}
		for _, id := range sel.IDs {
			if i, ok := found[id]; ok {
				add([]cloud.Instance{i})
			}
		}
	}
	found, err := c.describeBy(ctx, "tag:"+catalog.LaunchAnnotation, sel.LaunchIDs, c.ours()...)
	if err != nil {
		return nil, err
	}
	add(found)
	return out, nil
}

// ours returns the filters that select the instances of this cluster's classes. Managed node groups carry kubernetes.io/cluster/NAME as
// well; only instances of a class carry both tags.
func (c *Cloud) ours() []ec2types.Filter {
	return []ec2types.Filter{filter("tag:"+awsv1.EKSClusterNameTagKey, c.cfg.ClusterName), filter("tag-key", awsv1.NodeClassTagKey)}
}

// describeAll describes the instances that several callers request.
func (c *Cloud) describeAll(ctx context.Context, asked [][]string) (map[string]cloud.Instance, error) {
	ids := slices.Concat(asked...)
	slices.Sort(ids)
	found, err := c.describeBy(ctx, "instance-id", slices.Compact(ids))
	out := make(map[string]cloud.Instance, len(found))
	for _, i := range found {
		out[i.ID] = i
	}
	return out, err
}

// describeBy describes the instances that have one of the values, and match the other filters.
func (c *Cloud) describeBy(ctx context.Context, name string, values []string, filters ...ec2types.Filter) ([]cloud.Instance, error) {
	var out []cloud.Instance
	for chunk := range slices.Chunk(values, filterValues) {
		found, err := c.describeInstances(ctx, append(slices.Clone(filters), filter(name, chunk...)))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
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
		if code(err).IsInstanceUnknown() {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("describing instances: %w", err)
		}
		for _, reservation := range page.Reservations {
			for _, i := range reservation.Instances {
				out = append(out, c.completed(instanceOf(i)))
			}
		}
	}
	c.without.refusals.shown(out)
	if lacked := c.seen.note(out, time.Now().Add(-c.without.period)); len(lacked) > 0 {
		c.remember(lacked)
	}
	return out, nil
}

// completed adds the zone ID, which not every answer contains, if a subnet's description had it.
func (c *Cloud) completed(i cloud.Instance) cloud.Instance {
	if id, ok := c.zoneIDs.Load(i.Zone); ok && i.ZoneID == "" {
		i.ZoneID, _ = id.(string)
	}
	return i
}

func instanceOf(in ec2types.Instance) cloud.Instance {
	out := cloud.Instance{
		ID: awssdk.ToString(in.InstanceId), InstanceType: string(in.InstanceType), ImageID: awssdk.ToString(in.ImageId),
		PrivateDNSName: awssdk.ToString(in.PrivateDnsName), PrivateIP: nodeIP(in),
		LaunchTime: awssdk.ToTime(in.LaunchTime), SubnetID: awssdk.ToString(in.SubnetId), Tenancy: catalog.TenancyDefault, Tags: map[string]string{},
	}
	if out.PrivateIP == awssdk.ToString(in.PrivateIpAddress) {
		out.PublicIP, out.PublicDNSName = awssdk.ToString(in.PublicIpAddress), awssdk.ToString(in.PublicDnsName)
	}
	for _, g := range in.SecurityGroups {
		out.SecurityGroupIDs = append(out.SecurityGroupIDs, awssdk.ToString(g.GroupId))
	}
	for _, nic := range in.NetworkInterfaces {
		if kind := ec2types.NetworkInterfaceType(awssdk.ToString(nic.InterfaceType)); kind == ec2types.NetworkInterfaceTypeEfa || kind == ec2types.NetworkInterfaceTypeEfaOnly {
			out.EFAs++
		}
	}
	for _, t := range capacityTypes() {
		if reservation, ok := t.runs(in); ok {
			out.CapacityType, out.ReservationID = t.name, reservation
			out.ReservationType, out.ReservationInterruptible = reservationKind(in, reservation)
			break
		}
	}
	if in.State != nil {
		out.State = cloud.InstanceState(in.State.Name)
	}
	if in.HibernationOptions != nil {
		out.Hibernates = awssdk.ToBool(in.HibernationOptions.Configured)
	}
	if in.StateReason != nil {
		out.StateReason = cloud.StateReason{Code: awssdk.ToString(in.StateReason.Code), Message: awssdk.ToString(in.StateReason.Message)}
		out.Hibernated = out.StateReason.Code == "Client.UserInitiatedHibernate"
	}
	if in.Placement != nil {
		out.Zone, out.ZoneID = awssdk.ToString(in.Placement.AvailabilityZone), awssdk.ToString(in.Placement.AvailabilityZoneId)
		out.Tenancy = cmp.Or(string(in.Placement.Tenancy), out.Tenancy)
		out.PlacementGroupID, out.Partition = awssdk.ToString(in.Placement.GroupId), awssdk.ToInt32(in.Placement.PartitionNumber)
	}
	for _, t := range in.Tags {
		out.Tags[awssdk.ToString(t.Key)] = awssdk.ToString(t.Value)
	}
	return out
}

// Tag implements cloud.Cloud. Instances that get the same tags share a call.
func (c *Cloud) Tag(ctx context.Context, instanceID string, tags map[string]string) (err error) {
	defer c.metrics.measure("Tag")(&err)
	failed, err := c.tagged.do(ctx, tagRequest{instanceID, tags})
	if err != nil {
		return err
	}
	return failed[instanceID]
}

// tagRequest holds the new tags of one instance.
type tagRequest struct {
	id   string
	tags map[string]string
}

// tagAll writes the tags for several callers and returns the errors by instance.
func (c *Cloud) tagAll(ctx context.Context, asked []tagRequest) (map[string]error, error) {
	byTags := map[string][]string{}
	tags := map[string]map[string]string{}
	for _, r := range asked {
		key := cacheKey(r.tags)
		tags[key] = r.tags
		byTags[key] = append(byTags[key], r.id)
	}
	failed := map[string]error{}
	for _, key := range sortedKeys(byTags) {
		for chunk := range slices.Chunk(byTags[key], tagAtOnce) {
			c.tagSome(ctx, chunk, tags[key], failed)
		}
	}
	return failed, nil
}

func (c *Cloud) tagSome(ctx context.Context, ids []string, tags map[string]string, failed map[string]error) {
	_, err := c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids, Tags: ec2Tags(tags)})
	switch {
	case err == nil:
	case len(ids) > 1 && !isTransient(err):
		half := len(ids) / 2
		c.tagSome(ctx, ids[:half], tags, failed)
		c.tagSome(ctx, ids[half:], tags, failed)
	default:
		for _, id := range ids {
			failed[id] = fmt.Errorf("tagging instance %s: %w", id, err)
			if c.isUnknown(ctx, id, err) {
				failed[id] = &cloud.NotFoundError{InstanceID: id}
			}
		}
	}
}

// Terminate implements cloud.Cloud. EC2 limits the number of calls: callers gather the instances that terminate together, as
// launcher/terminate does. One ID that EC2 rejects fails a whole call: such a call is split until all other instances are terminated.
func (c *Cloud) Terminate(ctx context.Context, instanceIDs []string) (err error) {
	defer c.metrics.measure("Delete")(&err)
	ids := slices.Clone(instanceIDs)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	failed := map[string]error{}
	for chunk := range slices.Chunk(ids, terminateAtOnce) {
		// EC2 limits the number of instances as well as the number of calls.
		if err := c.throttle.instances.WaitN(ctx, len(chunk)); err != nil {
			return fmt.Errorf("waiting to terminate %s: %w", catalog.CountText(len(chunk), "instance"), err)
		}
		c.terminate(ctx, chunk, failed)
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, failed[id])
	}
	return errors.Join(errs...)
}

func (c *Cloud) terminate(ctx context.Context, ids []string, failed map[string]error) {
	_, err := c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	switch {
	case err == nil:
	case len(ids) > 1 && !isTransient(err):
		half := len(ids) / 2
		c.terminate(ctx, ids[:half], failed)
		c.terminate(ctx, ids[half:], failed)
	case len(ids) == 1 && c.isUnknown(ctx, ids[0], err):
	default:
		for _, id := range ids {
			failed[id] = &cloud.TerminationError{InstanceID: id, Err: err}
		}
	}
}

// isUnknown reports whether a call was denied because the instance does not exist. The launcher's IAM policy allows instances with the
// cluster's tags only. An instance that does not exist has no tags, so EC2 answers UnauthorizedOperation.
func (c *Cloud) isUnknown(ctx context.Context, id string, refused error) bool {
	if !code(refused).IsDenied() {
		return code(refused).IsInstanceUnknown()
	}
	found, err := c.describeInstances(ctx, []ec2types.Filter{filter("instance-id", id)})
	return err == nil && len(found) == 0
}
