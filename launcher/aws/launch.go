package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// launchMemory is how long the request of an unsettled launch ID is kept. A retry must repeat it exactly: EC2 rejects a client token with
// other parameters.
const launchMemory = 15 * time.Minute

// maxTemplates is the maximum number of launch templates in one fleet (EC2 user guide, "Quotas for EC2 Fleet"). EC2 limits overrides only
// for fleets that are not of type instant.
const maxTemplates = 50

// Launch implements cloud.Cloud. One call buys one capacity type, in Karpenter's order: reserved if any reserved option may have capacity,
// else spot, else on-demand.
func (c *Cloud) Launch(ctx context.Context, in cloud.LaunchInput) (_ cloud.LaunchOutput, err error) {
	defer c.metrics.measure("Create")(&err)
	if in.LaunchID == "" || in.Class == nil || len(in.Claims) == 0 || len(in.Options) == 0 {
		return cloud.LaunchOutput{}, errors.New("launch: launch id, class, claims and options are all required")
	}
	request, ok := c.launches.peek(in.LaunchID)
	if ok {
		c.taken.charge(request.addresses)
	} else {
		// 1. Faults of the class are returned before anything is created.
		known, err := c.describeCluster(ctx)
		if err != nil {
			return cloud.LaunchOutput{}, err
		}
		if f, ok := launchFault(in.Class, known); ok {
			return cloud.LaunchOutput{}, &cloud.NodeClassError{Class: in.Class.Name, Reason: f.reason, Message: f.message}
		}
		// 2. Select the options to try.
		options, failures := c.without.toTry(idOf(in.Class), in.Options, time.Now())
		if len(options) == 0 {
			return cloud.LaunchOutput{Failures: failures}, nil
		}
		// 3. Build the request, and create the launch templates that it names.
		if request, err = c.prepare(ctx, in, options, known); err != nil {
			return cloud.LaunchOutput{}, err
		}
	}
	defer c.taken.release(request.addresses)
	if len(request.fleet.LaunchTemplateConfigs) == 0 {
		return cloud.LaunchOutput{Failures: plain(request.skipped)}, nil
	}
	// 4. Make the call.
	out, lost, err := c.createFleet(ctx, request)
	if err != nil {
		return c.launchError(request, lost, err)
	}
	// 5. Read EC2's answer.
	return c.launchOutput(request, out)
}

// Settled implements cloud.Cloud: it drops the kept request, which may have tens of kilobytes.
func (c *Cloud) Settled(launchID string) { c.launches.forget(launchID) }

// launchFault returns the reason why the class cannot launch, if there is one.
func launchFault(class *awsv1.EC2NodeClass, known cluster) (fault, bool) {
	status := class.Status
	for _, part := range []struct {
		missing bool
		field   string
	}{
		{len(status.Subnets) == 0, "status.subnets"},
		{len(status.SecurityGroups) == 0, "status.securityGroups"},
		{len(status.AMIs) == 0, "status.amis"},
		{status.InstanceProfile == "", "status.instanceProfile"},
	} {
		if part.missing {
			return fault{"NodeClassNotReady", part.field + " is empty: the class is not resolved"}, true
		}
	}
	return faultOf(class, known)
}

// poolKey names a capacity pool of one request, which has one option of it: EC2 refuses a request with two.
type poolKey struct{ instanceType, zone string }

// poolOf returns the pool of an option.
func poolOf(o cloud.Option) poolKey { return poolKey{o.InstanceType, o.Zone} }

// launchRequest is one CreateFleet call with the data needed to read its answer.
type launchRequest struct {
	id        classID
	count     int
	addresses addresses
	fleet     *ec2.CreateFleetInput
	templates []*ec2.CreateLaunchTemplateInput
	options   map[poolKey]cloud.Option
	subnets   map[string]subnet
	// skipped are the options that could not be requested.
	skipped []fleetFailure
}

func (c *Cloud) prepare(ctx context.Context, in cloud.LaunchInput, options []cloud.Option, known cluster) (_ *launchRequest, err error) {
	usable, err := c.launchSubnets(ctx, in.Class)
	if err != nil {
		return nil, err
	}
	options = c.reserved.onePerPool(options)
	chosen := c.taken.pick(usable, options, c.reserved.most(options, len(in.Claims)), addressesOf(options, known.IPv6))
	defer func() {
		if err != nil {
			c.taken.release(chosen)
		}
	}()
	request, err := c.buildRequest(ctx, in, options, known, chosen)
	if err != nil {
		return nil, err
	}
	if err := c.ensureTemplates(ctx, request.templates); err != nil {
		return nil, templateError(in.Class.Name, err)
	}
	c.launches.put(in.LaunchID, request, launchMemory)
	return request, nil
}

// templateError classifies the error of creating a launch template.
func templateError(class string, err error) error {
	v := judge(err)
	switch v.cause {
	case cloud.CauseInvalid, cloud.CauseUnauthorized:
		return v.classError(class)
	default:
		return &cloud.LaunchError{Class: class, Cause: v.cause, Code: v.code, Reason: v.reason, Message: v.message, Err: err}
	}
}

// group identifies the options that share a launch template.
type group struct {
	imageID       string
	maxPods, efas int64
	reservation   cloud.Reservation
	hibernates    bool
}

func (c *Cloud) buildRequest(ctx context.Context, in cloud.LaunchInput, options []cloud.Option, known cluster, chosen addresses) (*launchRequest, error) {
	market, err := c.market(ctx)
	if err != nil {
		return nil, err
	}
	images, err := imagesOf(in.Class)
	if err != nil {
		return nil, &cloud.NodeClassError{Class: in.Class.Name, Reason: "AMIRequirementsInvalid", Message: err.Error()}
	}
	groupID, err := c.placements.required(ctx, in.Class)
	if err != nil {
		return nil, err
	}
	request := &launchRequest{
		id: idOf(in.Class), count: chosen.nodes, addresses: chosen, options: map[poolKey]cloud.Option{}, subnets: map[string]subnet{},
	}
	var order []group
	groups, picked := overridesOf{}, map[string]string{}
	for i, o := range options {
		key := poolOf(o)
		if _, seen := request.options[key]; seen {
			continue
		}
		request.options[key] = o
		image, ok := picked[o.InstanceType]
		if !ok {
			image, _ = images.pick(catalog.Labels(market.facts[o.InstanceType], fromec2.Family(in.Class)))
			picked[o.InstanceType] = image
		}
		subnet, reachable := chosen.subnets[o.Zone]
		switch {
		case image == "":
			request.skip(o, "NoAMI", "no AMI of the class runs on this instance type")
		case !reachable:
			request.skip(o, "NoSubnet", "no subnet of the class is in this zone")
		default:
			request.subnets[subnet.id] = subnet
			g := group{image, o.MaxPods, o.EFAs, o.Reservation, in.Hibernate && c.hibernation.why(in.Class, market.facts[o.InstanceType], time.Now()) == ""}
			if _, there := groups[g]; !there {
				if len(order) == maxTemplates {
					continue
				}
				order = append(order, g)
			}
			override := ec2types.FleetLaunchTemplateOverridesRequest{
				InstanceType: ec2types.InstanceType(o.InstanceType), SubnetId: awssdk.String(subnet.id),
				AvailabilityZone: awssdk.String(o.Zone),
			}
			if in.Prioritized {
				override.Priority = awssdk.Float64(float64(i))
			}
			groups[g] = append(groups[g], override)
		}
	}
	return request, request.fill(in, order, groups, templateSpec{
		class: in.Class, region: c.cfg.AWS.Region, cluster: known, capacityType: options[0].CapacityType,
		labels: in.Labels, taints: in.Taints, tags: c.launchTags(in), tenancy: cmp.Or(in.Tenancy, catalog.TenancyDefault),
		placementGroup: groupID, partition: in.Partition, enclaves: asksEnclaves(in),
		openReservations: c.cfg.OpenReservations,
	})
}

// required returns the ID of the class's placement group; empty if it selects none.
func (p placements) required(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	group, err := p.of(ctx, class)
	if err != nil {
		return "", fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	if class.Spec.PlacementGroupSelector != nil && group.ID == "" {
		return "", &cloud.NodeClassError{Class: class.Name, Reason: "PlacementGroupNotFound", Message: noGroup(class.Spec.PlacementGroupSelector)}
	}
	return group.ID, nil
}

func (r *launchRequest) skip(o cloud.Option, reason ec2error.Code, message string) {
	r.skipped = append(r.skipped, fleetFailure{
		OfferingFailure: cloud.OfferingFailure{Option: o, Reason: reason, Message: message, Cause: cloud.CauseInvalid, Condition: string(reason)},
	})
}

// launchTags returns the tags of everything that a launch creates, except its launch ID: the class's own tags, overridden by Karpenter's,
// which users' IAM policies and cost reports require.
func (c *Cloud) launchTags(in cloud.LaunchInput) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, in.Class.Spec.Tags)
	pool := in.Claims[0].Labels[karpv1.NodePoolLabelKey]
	if pool == "" {
		pool = in.Labels[karpv1.NodePoolLabelKey]
	}
	// A NodeClaim without a NodePool has the tag too, with an empty value: Karpenter's IAM policy requires it.
	tags[awsv1.NodePoolTagKey] = pool
	tags[awsv1.NodeClassTagKey] = in.Class.Name
	tags[awsv1.EKSClusterNameTagKey] = c.cfg.ClusterName
	tags["kubernetes.io/cluster/"+c.cfg.ClusterName] = "owned"
	return tags
}

// launchSubnets returns the class's subnets that may have the free addresses that it needs.
func (c *Cloud) launchSubnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]subnet, error) {
	found, err := c.selectSubnets(ctx, class.Spec.SubnetSelectorTerms)
	if err != nil {
		return nil, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	resolved := map[string]bool{}
	for _, s := range class.Status.Subnets {
		resolved[s.ID] = true
	}
	var out []subnet
	now := time.Now()
	for _, s := range found {
		c.zoneIDs.Store(s.zone, s.zoneID)
		if resolved[s.id] && !c.without.exhausted(class, s.id, now).holds(now) {
			out = append(out, s)
		}
	}
	return out, nil
}
