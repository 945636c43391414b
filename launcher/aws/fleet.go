package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// fleetFailure is a failed offering with the subnet that it was tried in.
type fleetFailure struct {
	cloud.OfferingFailure
	subnet, zoneID string
}

func plain(failures []fleetFailure) []cloud.OfferingFailure {
	var out []cloud.OfferingFailure
	for _, f := range failures {
		out = append(out, f.OfferingFailure)
	}
	return out
}

// createFleet makes the call, and once more after making the launch templates again where EC2 says that one is gone.
func (c *Cloud) createFleet(ctx context.Context, request *launchRequest) (*ec2.CreateFleetOutput, error) {
	out, err := c.ec2.CreateFleet(ctx, request.fleet)
	if err == nil || !isTemplateGone(code(err)) {
		return out, err
	}
	c.forgetTemplates(request)
	if err := c.ensureTemplates(ctx, request.templates); err != nil {
		return nil, err
	}
	return c.ec2.CreateFleet(ctx, request.fleet)
}

func (c *Cloud) forgetTemplates(request *launchRequest) {
	for _, t := range request.templates {
		c.templates.forget(awssdk.ToString(t.LaunchTemplateName))
	}
}

// launchError reads an error of the call itself: a fault of the class, want of capacity that concerns all options, or
// one that may be retried with the same launch id.
func (c *Cloud) launchError(request *launchRequest, err error) (cloud.LaunchOutput, error) {
	reason, text := code(err), message(err)
	switch {
	case isCapacityCode(reason):
		failures := request.all(reason, text)
		c.remember(failures)
		return cloud.LaunchOutput{Failures: plain(slices.Concat(request.skipped, failures))}, nil
	case isClassFault(reason, text):
		return cloud.LaunchOutput{}, &cloud.NodeClassError{Class: request.class, Reason: reason, Message: text}
	}
	return cloud.LaunchOutput{}, fmt.Errorf("EC2NodeClass %s: creating fleet: %w", request.class, err)
}

// launchOutput reads the answer of the call. Where nothing was launched and every offering failed for what the class
// says, that is the error.
func (c *Cloud) launchOutput(request *launchRequest, out *ec2.CreateFleetOutput) (cloud.LaunchOutput, error) {
	var result cloud.LaunchOutput
	for _, instance := range out.Instances {
		result.InstanceIDs = append(result.InstanceIDs, instance.InstanceIds...)
		if o := overrides(instance.LaunchTemplateAndOverrides); o != nil {
			c.taken.add(awssdk.ToString(o.SubnetId), int64(len(instance.InstanceIds)))
		}
	}
	failures := request.failures(out.Errors)
	if len(result.InstanceIDs) < request.count && len(failures) == 0 {
		// Not remembered against any offering: EC2 named none.
		result.Failures = plain(slices.Concat(request.skipped, request.all(codeUnfulfillableCapacity,
			"EC2 launched fewer instances than asked for and gave no reason")))
		return result, nil
	}
	for _, f := range failures {
		if isTemplateGone(f.Reason) {
			c.forgetTemplates(request)
		}
	}
	c.remember(failures)
	if len(result.InstanceIDs) == 0 {
		if f, ok := classFault(failures); ok {
			return cloud.LaunchOutput{}, &cloud.NodeClassError{Class: request.class, Reason: f.Reason, Message: f.Message}
		}
	}
	result.Failures = plain(slices.Concat(request.skipped, failures))
	return result, nil
}

func (c *Cloud) remember(failures []fleetFailure) {
	c.metrics.launchFailures(failures)
	c.without.remember(failures, time.Now())
}

// classFault returns the first failure where all are the class's fault.
func classFault(failures []fleetFailure) (fleetFailure, bool) {
	for _, f := range failures {
		if !isClassFault(f.Reason, f.Message) {
			return fleetFailure{}, false
		}
	}
	if len(failures) == 0 {
		return fleetFailure{}, false
	}
	return failures[0], true
}

// failures says which options failed, each once, with the first reason that EC2 gave; an error that names no offering
// of the request counts for all.
func (r *launchRequest) failures(errors []ec2types.CreateFleetError) []fleetFailure {
	var out []fleetFailure
	seen := map[offeringKey]bool{}
	add := func(key offeringKey, o cloud.Option, subnet string, e ec2types.CreateFleetError) {
		if seen[key] {
			return
		}
		seen[key] = true
		out = append(out, fleetFailure{
			OfferingFailure: cloud.OfferingFailure{
				Option: o, Reason: awssdk.ToString(e.ErrorCode), Message: awssdk.ToString(e.ErrorMessage),
			},
			subnet: subnet, zoneID: r.subnets[subnet].zoneID,
		})
	}
	for _, e := range errors {
		key, subnet := r.offering(overrides(e.LaunchTemplateAndOverrides))
		if o, ok := r.options[key]; ok {
			add(key, o, subnet, e)
			continue
		}
		for _, key := range sortedOfferings(r.options) {
			add(key, r.options[key], "", e)
		}
	}
	return out
}

// all is the same failure for each offering that was asked for.
func (r *launchRequest) all(reason, message string) []fleetFailure {
	skipped := map[cloud.Option]bool{}
	for _, f := range r.skipped {
		skipped[f.Option] = true
	}
	var out []fleetFailure
	for _, key := range sortedOfferings(r.options) {
		if o := r.options[key]; !skipped[o] {
			out = append(out, fleetFailure{OfferingFailure: cloud.OfferingFailure{Option: o, Reason: reason, Message: message}})
		}
	}
	return out
}

func overrides(in *ec2types.LaunchTemplateAndOverridesResponse) *ec2types.FleetLaunchTemplateOverrides {
	if in == nil {
		return nil
	}
	return in.Overrides
}

// offering names the option of an answer, by its zone or else by its subnet's.
func (r *launchRequest) offering(o *ec2types.FleetLaunchTemplateOverrides) (offeringKey, string) {
	if o == nil {
		return offeringKey{}, ""
	}
	id, zone := awssdk.ToString(o.SubnetId), awssdk.ToString(o.AvailabilityZone)
	if s, ok := r.subnets[id]; ok {
		zone = s.zone
	}
	return offeringKey{instanceType: string(o.InstanceType), zone: zone}, id
}

func sortedOfferings(options map[offeringKey]cloud.Option) []offeringKey {
	return slices.SortedFunc(maps.Keys(options), func(a, b offeringKey) int {
		return cmp.Or(cmp.Compare(a.instanceType, b.instanceType), cmp.Compare(a.zone, b.zone))
	})
}
