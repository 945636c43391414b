package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// fleetFailure is a failed offering with the subnet in which it was tried.
type fleetFailure struct {
	cloud.OfferingFailure
	subnet, zoneID string
	// text is EC2's message.
	text string
	// class is that of the launch if the failure concerns its launches alone: EC2 refused the offering by name, which is no fault of the class by itself, or
	// has no room for its volumes; zero for all other failures.
	class classID
}

func plain(failures []fleetFailure) []cloud.OfferingFailure {
	var out []cloud.OfferingFailure
	for _, f := range failures {
		out = append(out, f.OfferingFailure)
	}
	return out
}

// createFleet makes the call. If EC2 reports that a launch template does not exist, it makes the templates again and repeats the call once. lost means that an
// attempt of the call may have launched although the call failed.
func (c *Cloud) createFleet(ctx context.Context, request *launchRequest) (out *ec2.CreateFleetOutput, lost bool, err error) {
	note := func(o *ec2.Options) { o.APIOptions = append(slices.Clip(o.APIOptions), noteLost(&lost)) }
	out, err = c.ec2.CreateFleet(ctx, request.fleet, note)
	if err == nil || !code(err).IsTemplateGone() {
		return out, lost, err
	}
	c.templates.forgetAll(request.templates)
	if err := c.ensureTemplates(ctx, request.templates); err != nil {
		return nil, lost, err
	}
	out, err = c.ec2.CreateFleet(ctx, request.fleet, note)
	return out, lost, err
}

// noteLost has a client note whether an attempt of a call ended without an answer, or with an error of the server's own: it may have had its effect.
func noteLost(lost *bool) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("LostAttempts", func(
			ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
		) (middleware.FinalizeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleFinalize(ctx, in)
			made, _ := retry.GetAttemptResults(metadata)
			*lost = *lost || slices.ContainsFunc(made.Results, func(r retry.AttemptResult) bool {
				return r.Err != nil && isTransient(r.Err) && !code(r.Err).IsThrottled()
			})
			return out, metadata, err
		}), middleware.Before)
	}
}

// launchError classifies an error of the call itself: a fault of the class, a shortage of capacity that concerns all options, or a transient
// error.
func (c *Cloud) launchError(request *launchRequest, lost bool, err error) (cloud.LaunchOutput, error) {
	v := judge(err)
	if code(err) == ec2error.UnsupportedHibernation {
		// Another launch, without it, follows.
		failures := request.all(code(err), message(err), v)
		request.noteHibernation(c.hibernation, failures)
		return cloud.LaunchOutput{Failures: plain(slices.Concat(request.skipped, failures))}, nil
	}
	switch v.cause {
	case cloud.CauseCapacity, cloud.CauseQuota, cloud.CauseSpotRole:
		failures := c.remember(request.all(code(err), message(err), v))
		return cloud.LaunchOutput{Failures: plain(slices.Concat(request.skipped, failures))}, nil
	case cloud.CauseUnauthorized, cloud.CauseInvalid:
		return cloud.LaunchOutput{}, v.classError(request.id.name)
	default:
		return cloud.LaunchOutput{}, &cloud.LaunchError{
			Class: request.id.name, Cause: v.cause, Code: v.code, Reason: v.reason, Message: v.message, Lost: lost, Err: fmt.Errorf("creating fleet: %w", err),
		}
	}
}

// launchOutput reads the answer of the call. If nothing was launched because of the class, it returns that error.
func (c *Cloud) launchOutput(request *launchRequest, out *ec2.CreateFleetOutput) (cloud.LaunchOutput, error) {
	var result cloud.LaunchOutput
	for _, instance := range out.Instances {
		result.InstanceIDs = append(result.InstanceIDs, instance.InstanceIds...)
		if in := instance.LaunchTemplateAndOverrides; in != nil && in.Overrides != nil {
			c.taken.add(awssdk.ToString(in.Overrides.SubnetId), int64(len(instance.InstanceIds))*request.addresses.each)
		}
	}
	var launched []cloud.Option
	for _, instance := range out.Instances {
		if pools, _, _ := request.pools(instance.LaunchTemplateAndOverrides); len(pools) == 1 && len(instance.InstanceIds) > 0 {
			option := request.options[pools[0]]
			launched = append(launched, option)
			c.without.sold(option)
			c.reserved.take(option.Reservation.ID, int64(len(instance.InstanceIds)))
		}
	}
	errors := out.Errors
	if len(result.InstanceIDs) == 0 {
		errors = withoutConsequences(errors)
	}
	failures := forgiven(request.failures(errors), launched)
	if len(result.InstanceIDs) < request.count && len(failures) == 0 {
		// These failures are not remembered for any offering: EC2 named none.
		result.Failures = plain(slices.Concat(request.skipped, request.all(ec2error.UnfulfillableCapacity,
			"EC2 launched fewer instances than asked for and gave no reason", verdict{cause: cloud.CauseCapacity, reason: ec2error.ReasonInsufficientCapacity})))
		return result, nil
	}
	for _, f := range failures {
		if f.Cause == cloud.CauseTemplateGone {
			c.templates.forgetAll(request.templates)
		}
	}
	failures = c.remember(failures)
	request.noteHibernation(c.hibernation, failures)
	if len(result.InstanceIDs) > 0 {
		c.without.works(request.id, launched)
	} else {
		if err := classFault(request, failures, c.without.refusals); err != nil {
			return cloud.LaunchOutput{}, err
		}
		c.without.pause(request, failures, time.Now())
	}
	result.Failures = plain(slices.Concat(request.skipped, failures))
	return result, nil
}

// noteHibernation records the failures that are about hibernation.
func (r *launchRequest) noteHibernation(in *hibernation, failures []fleetFailure) {
	for _, f := range failures {
		if f.Reason == ec2error.UnsupportedHibernation {
			in.note(r.id.name, f.Option.InstanceType, f.Message, time.Now())
		}
	}
}

// remember counts and records failures, and returns them with since when EC2 has refused their offerings.
func (c *Cloud) remember(failures []fleetFailure) []fleetFailure {
	c.metrics.launchFailures(failures)
	return c.without.remember(failures, time.Now())
}

// classFault returns the error of the class if it is at fault for an answer without instances. EC2 refused all that the answer is about then, and it
// named no offering, or the cause is certain to be the class, or the class is not known to work and all that was asked for is refused, or several types. EC2 often lists one error
// of a call for many offerings, so that one that is named says nothing about the others.
func classFault(r *launchRequest, failures []fleetFailure, known *refusals) error {
	refused, byName := map[string]bool{}, true
	for _, f := range failures {
		if !f.refused() {
			return nil
		}
		refused[f.Option.InstanceType] = true
		byName = byName && f.byName()
	}
	others := slices.ContainsFunc(r.asked(), func(pool poolKey) bool { return !refused[pool.instanceType] })
	if len(failures) == 0 || byName && !known.isBroken(r.id, !others) {
		return nil
	}
	return judgeFleet(string(failures[0].Reason), failures[0].text).classError(r.id.name)
}

// refused reports whether EC2 refuses the launch for what it is, not for what EC2 has.
func (f fleetFailure) refused() bool {
	return f.Cause == cloud.CauseInvalid || f.Cause == cloud.CauseUnauthorized
}

// byName reports whether EC2 refused the offering by name.
func (f fleetFailure) byName() bool { return f.class != classID{} && !f.Reason.OfVolumes() }

// concerns returns what a refusal of an offering concerns. EC2 names the subnet in the code, such as InvalidSubnetID.NotFound, or as the resource that a
// policy denies, such as arn:aws:ec2:us-east-1:1:subnet/subnet-1.
func (f fleetFailure) concerns() typeKey {
	key := typeKey{capacityType: f.Option.CapacityType, instanceType: f.Option.InstanceType}
	if strings.HasPrefix(string(f.Reason), "InvalidSubnet") || strings.Contains(f.text, ":subnet/") {
		key.zone = f.Option.Zone
	}
	return key
}

// aboutClass reports whether the failure is one of each instance type of the class, such as that there is no such AMI, or that the account is blocked.
func (f fleetFailure) aboutClass() bool {
	return f.Condition != "Unauthorized" && f.Condition != "LaunchFailed" || f.Reason.IsDenied() && f.Reason != ec2error.UnauthorizedOperation
}

// forgiven returns the failures without consequences for the types that were launched by the same call elsewhere: these are not refused to the class.
func forgiven(failures []fleetFailure, launched []cloud.Option) []fleetFailure {
	for i, f := range failures {
		if f.byName() && slices.ContainsFunc(launched, func(o cloud.Option) bool {
			return o.InstanceType == f.Option.InstanceType && o.CapacityType == f.Option.CapacityType
		}) {
			failures[i].class = classID{}
		}
	}
	return failures
}

// named returns the failure of an offering that EC2 refuses to a class by name. A denial keeps EC2's text: which policy denies the offering is
// there, and the launcher's role may do the action otherwise.
func (f fleetFailure) named(class classID) fleetFailure {
	f.class, f.Condition = class, ec2error.ReasonInstanceTypeRefused
	if f.Cause == cloud.CauseUnauthorized {
		f.Message = f.text
	}
	return f
}

// withoutConsequences returns the errors of an answer without instances. If one of them is about the request itself, those are left out by which a
// spot fleet blames the request for a lack of capacity: the offerings may have some.
func withoutConsequences(errors []ec2types.CreateFleetError) []ec2types.CreateFleetError {
	if !slices.ContainsFunc(errors, func(e ec2types.CreateFleetError) bool {
		return judgeFleet(awssdk.ToString(e.ErrorCode), awssdk.ToString(e.ErrorMessage)).ofRequest()
	}) {
		return errors
	}
	return slices.DeleteFunc(slices.Clone(errors), func(e ec2types.CreateFleetError) bool {
		return ec2error.Bare(awssdk.ToString(e.ErrorCode)).BlamesRequest(awssdk.ToString(e.ErrorMessage))
	})
}

// failures returns the options that failed, each once with the first reason that EC2 gave. An error that does not name one offering of the
// request counts for all that it may be about.
func (r *launchRequest) failures(errors []ec2types.CreateFleetError) []fleetFailure {
	var out []fleetFailure
	seen := map[poolKey]bool{}
	for _, e := range errors {
		pools, subnet, named := r.pools(e.LaunchTemplateAndOverrides)
		text := awssdk.ToString(e.ErrorMessage)
		v := judgeFleet(awssdk.ToString(e.ErrorCode), text)
		for _, key := range pools {
			if seen[key] {
				continue
			}
			seen[key] = true
			f := r.failed(r.options[key], v.code, text, v)
			f.subnet, f.zoneID = subnet, r.subnets[subnet].zoneID
			if named && f.refused() && !f.aboutClass() {
				f = f.named(r.id)
			}
			out = append(out, f)
		}
	}
	return out
}

// failed returns the failure of an option. EC2's text about an offering is kept verbatim; about another cause, the verdict has more.
func failed(o cloud.Option, code ec2error.Code, text string, v verdict) fleetFailure {
	f := fleetFailure{OfferingFailure: cloud.OfferingFailure{Option: o, Reason: code, Message: text, Cause: v.cause, Condition: v.reason}, text: text}
	if !code.OfOffering() && v.message != "" {
		f.Message = v.message
	}
	return f
}

// failed returns the failure of an option of the request.
func (r *launchRequest) failed(o cloud.Option, code ec2error.Code, text string, v verdict) fleetFailure {
	f := failed(o, code, text, v)
	if code.OfVolumes() {
		f.class = r.id
	}
	return f
}

// failureOf returns the failure that the mark of an option stands for.
func failureOf(o cloud.Option, m mark) fleetFailure {
	f := failed(o, m.Code, m.text, judgeFleet(string(m.Code), m.text))
	f.Since, f.Attempts = m.Since, m.Attempts
	return f
}

// asked returns the capacity pools of the requested offerings.
func (r *launchRequest) asked() []poolKey {
	skipped := map[cloud.Option]bool{}
	for _, f := range r.skipped {
		skipped[f.Option] = true
	}
	return slices.DeleteFunc(sortedPools(r.options), func(key poolKey) bool { return skipped[r.options[key]] })
}

// all returns the same failure for each requested offering.
func (r *launchRequest) all(code ec2error.Code, text string, v verdict) []fleetFailure {
	var out []fleetFailure
	for _, key := range r.asked() {
		out = append(out, r.failed(r.options[key], code, text, v))
	}
	return out
}

// pools returns the capacity pools of the request that an answer may be about, and the answer's subnet. It is one pool, or all pools if EC2 named
// none. The zone is the answer's, or else its subnet's.
func (r *launchRequest) pools(in *ec2types.LaunchTemplateAndOverridesResponse) (pools []poolKey, subnetID string, named bool) {
	if in != nil && in.Overrides != nil {
		id, zone := awssdk.ToString(in.Overrides.SubnetId), awssdk.ToString(in.Overrides.AvailabilityZone)
		if s, ok := r.subnets[id]; ok {
			zone = s.zone
		}
		key := poolKey{string(in.Overrides.InstanceType), zone}
		if _, ok := r.options[key]; ok {
			return []poolKey{key}, id, true
		}
	}
	return sortedPools(r.options), "", false
}

func sortedPools(options map[poolKey]cloud.Option) []poolKey {
	return slices.SortedFunc(maps.Keys(options), func(a, b poolKey) int {
		return cmp.Or(cmp.Compare(a.instanceType, b.instanceType), cmp.Compare(a.zone, b.zone))
	})
}
