package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// launchMemory is how long the request of a launch id is kept, so that a repetition is the same to the letter: EC2
// refuses a client token that comes with other parameters.
const launchMemory = 15 * time.Minute

// Launch implements cloud.Cloud. One call buys one capacity type: spot if any spot option may have capacity, as
// Karpenter does, else on-demand.
func (c *Cloud) Launch(ctx context.Context, in cloud.LaunchInput) (_ cloud.LaunchOutput, err error) {
	defer c.metrics.measure("Create")(&err)
	if in.LaunchID == "" || in.Class == nil || len(in.Claims) == 0 || len(in.Options) == 0 {
		return cloud.LaunchOutput{}, errors.New("launch: launch id, class, claims and options are all required")
	}
	request, ok := c.launches.peek(in.LaunchID)
	if !ok {
		// 1. What is wrong with the class is said before anything is made.
		known, err := c.describeCluster(ctx)
		if err != nil {
			return cloud.LaunchOutput{}, err
		}
		if f, ok := launchFault(in.Class, known); ok {
			return cloud.LaunchOutput{}, &cloud.NodeClassError{Class: in.Class.Name, Reason: f.reason, Message: f.message}
		}
		// 2. Of the options, those to try.
		options, failures := c.toTry(in.Options, time.Now())
		if len(options) == 0 {
			return cloud.LaunchOutput{Failures: failures}, nil
		}
		// 3. The request, and the launch templates that it names.
		if request, err = c.prepare(ctx, in, options, known); err != nil {
			return cloud.LaunchOutput{}, err
		}
		if len(request.fleet.LaunchTemplateConfigs) == 0 {
			return cloud.LaunchOutput{Failures: plain(request.skipped)}, nil
		}
	}
	// 4. The call.
	out, err := c.createFleet(ctx, request)
	if err != nil {
		return c.launchError(request, err)
	}
	// 5. What EC2 answered.
	return c.launchOutput(request, out)
}

// launchFault says why the class cannot launch.
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

// toTry returns the options of the capacity type to buy that may have capacity; where none has, a failure for each.
func (c *Cloud) toTry(options []cloud.Option, now time.Time) ([]cloud.Option, []cloud.OfferingFailure) {
	var usable []cloud.Option
	var failures []cloud.OfferingFailure
	for _, o := range options {
		until := c.without.until(offeringKey{o.CapacityType, o.InstanceType, o.Zone}, now)
		if until.IsZero() {
			usable = append(usable, o)
			continue
		}
		failures = append(failures, cloud.OfferingFailure{
			Option: o, Reason: codeInsufficientInstanceCapacity,
			Message: "EC2 had no capacity a moment ago; tried again from " + until.UTC().Format(time.RFC3339),
		})
	}
	spot := slices.ContainsFunc(usable, isSpot)
	return slices.DeleteFunc(usable, func(o cloud.Option) bool { return isSpot(o) != spot }), failures
}

func isSpot(o cloud.Option) bool { return o.CapacityType == karpv1.CapacityTypeSpot }

// launchRequest is one CreateFleet call with what is needed to read its answer.
type launchRequest struct {
	class     string
	count     int
	fleet     *ec2.CreateFleetInput
	templates []*ec2.CreateLaunchTemplateInput
	options   map[offeringKey]cloud.Option
	subnets   map[string]subnet
	// skipped are the options that could not even be asked for.
	skipped []fleetFailure
}

func (c *Cloud) prepare(ctx context.Context, in cloud.LaunchInput, options []cloud.Option, known cluster) (*launchRequest, error) {
	request, err := c.buildRequest(ctx, in, options, known)
	if err != nil {
		return nil, err
	}
	if err := c.ensureTemplates(ctx, request.templates); err != nil {
		if isClassFault(code(err), message(err)) {
			return nil, &cloud.NodeClassError{Class: in.Class.Name, Reason: "LaunchTemplateRefused", Message: message(err)}
		}
		return nil, fmt.Errorf("EC2NodeClass %s: %w", in.Class.Name, err)
	}
	c.launches.put(in.LaunchID, request, launchMemory)
	return request, nil
}

// group is the options that share a launch template.
type group struct {
	imageID string
	maxPods int64
}

func (c *Cloud) buildRequest(ctx context.Context, in cloud.LaunchInput, options []cloud.Option, known cluster) (*launchRequest, error) {
	subnets, err := c.launchSubnets(ctx, in.Class)
	if err != nil {
		return nil, err
	}
	market, err := c.market(ctx)
	if err != nil {
		return nil, err
	}
	images, err := imagesOf(in.Class)
	if err != nil {
		return nil, &cloud.NodeClassError{Class: in.Class.Name, Reason: "AMIRequirementsInvalid", Message: err.Error()}
	}
	request := &launchRequest{
		class: in.Class.Name, count: len(in.Claims), options: map[offeringKey]cloud.Option{}, subnets: map[string]subnet{},
	}
	groups := map[group][]ec2types.FleetLaunchTemplateOverridesRequest{}
	for _, o := range options {
		key := offeringKey{instanceType: o.InstanceType, zone: o.Zone}
		if _, seen := request.options[key]; seen {
			continue
		}
		request.options[key] = o
		image, ok := images.pick(catalog.Labels(market.facts[o.InstanceType]))
		subnet, reachable := subnets[o.Zone]
		switch {
		case !ok:
			request.skip(o, "NoAMI", "no AMI of the class runs on this instance type")
		case !reachable:
			request.skip(o, "NoSubnet", "no subnet of the class is in this zone")
		default:
			request.subnets[subnet.id] = subnet
			g := group{image, o.MaxPods}
			groups[g] = append(groups[g], ec2types.FleetLaunchTemplateOverridesRequest{
				InstanceType: ec2types.InstanceType(o.InstanceType), SubnetId: awssdk.String(subnet.id),
				AvailabilityZone: awssdk.String(o.Zone),
			})
		}
	}
	return request, request.fill(in, groups, templateSpec{
		class: in.Class, cluster: known, capacityType: options[0].CapacityType,
		labels: in.Labels, taints: in.Taints, tags: c.launchTags(in),
	})
}

func (r *launchRequest) skip(o cloud.Option, reason, message string) {
	r.skipped = append(r.skipped, fleetFailure{
		OfferingFailure: cloud.OfferingFailure{Option: o, Reason: reason, Message: message},
	})
}

// fill writes the CreateFleet call: a launch template per group, its options as overrides.
func (r *launchRequest) fill(in cloud.LaunchInput, groups map[group][]ec2types.FleetLaunchTemplateOverridesRequest, spec templateSpec) error {
	tags := maps.Clone(spec.tags)
	tags[catalog.LaunchAnnotation] = in.LaunchID
	target := ec2types.DefaultTargetCapacityTypeOnDemand
	r.fleet = &ec2.CreateFleetInput{
		Type:        ec2types.FleetTypeInstant,
		ClientToken: awssdk.String(in.LaunchID),
		Context:     in.Class.Spec.Context,
		TagSpecifications: []ec2types.TagSpecification{
			{ResourceType: ec2types.ResourceTypeFleet, Tags: ec2Tags(tags)},
			{ResourceType: ec2types.ResourceTypeInstance, Tags: ec2Tags(tags)},
			{ResourceType: ec2types.ResourceTypeVolume, Tags: ec2Tags(tags)},
		},
	}
	if spec.capacityType == karpv1.CapacityTypeSpot {
		target = ec2types.DefaultTargetCapacityTypeSpot
		r.fleet.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: ec2types.SpotAllocationStrategyPriceCapacityOptimized}
	} else {
		r.fleet.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: ec2types.FleetOnDemandAllocationStrategyLowestPrice}
	}
	r.fleet.TargetCapacitySpecification = &ec2types.TargetCapacitySpecificationRequest{
		DefaultTargetCapacityType: target, TotalTargetCapacity: awssdk.Int32(int32(r.count)),
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.imageID, b.imageID), cmp.Compare(a.maxPods, b.maxPods))
	})
	for _, g := range order {
		spec.imageID, spec.maxPods = g.imageID, g.maxPods
		t, err := spec.template()
		if err != nil {
			return &cloud.NodeClassError{Class: in.Class.Name, Reason: "UserDataInvalid", Message: err.Error()}
		}
		r.templates = append(r.templates, t)
		r.fleet.LaunchTemplateConfigs = append(r.fleet.LaunchTemplateConfigs, ec2types.FleetLaunchTemplateConfigRequest{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: t.LaunchTemplateName, Version: awssdk.String("$Latest"),
			},
			Overrides: groups[g],
		})
	}
	return nil
}

// launchTags are the tags of all that a launch makes, its launch id excepted: Karpenter's, which users' IAM policies
// and cost reports ask for, over the class's own.
func (c *Cloud) launchTags(in cloud.LaunchInput) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, in.Class.Spec.Tags)
	pool := in.Claims[0].Labels[karpv1.NodePoolLabelKey]
	if pool == "" {
		pool = in.Labels[karpv1.NodePoolLabelKey]
	}
	if pool != "" {
		tags[awsv1.NodePoolTagKey] = pool
	}
	tags[awsv1.NodeClassTagKey] = in.Class.Name
	tags[awsv1.EKSClusterNameTagKey] = c.cfg.ClusterName
	tags["kubernetes.io/cluster/"+c.cfg.ClusterName] = "owned"
	return tags
}

// launchSubnets returns, by zone, the subnet of the class with the most free addresses.
func (c *Cloud) launchSubnets(ctx context.Context, class *awsv1.EC2NodeClass) (map[string]subnet, error) {
	found, err := c.selectSubnets(ctx, class.Spec.SubnetSelectorTerms)
	if err != nil {
		return nil, fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	resolved := map[string]bool{}
	for _, s := range class.Status.Subnets {
		resolved[s.ID] = true
	}
	out, now := map[string]subnet{}, time.Now()
	for _, s := range found {
		if !resolved[s.id] || !c.without.exhausted(s.id, now).IsZero() {
			continue
		}
		s.free -= c.taken.of(s.id)
		if best, ok := out[s.zone]; !ok || s.free > best.free {
			out[s.zone] = s
		}
	}
	return out, nil
}
