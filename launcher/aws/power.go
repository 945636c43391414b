package aws

import (
	"context"
	"errors"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// powerAtOnce is the number of instances in one call that stops or starts some: one instance that EC2 refuses fails the whole call.
const powerAtOnce = 50

// power implements cloud.Power.
type power struct {
	ec2 *ec2.Client
	// measure begins to measure a call.
	measure func(method string) func(*error)
	// without records that an offering was refused.
	without func(o cloud.Option, code ec2error.Code, text string)
	// isUnknown reports whether a call was refused because the instance does not exist.
	isUnknown func(ctx context.Context, id string, refused error) bool
	// facts returns what is known of an instance type.
	facts func(instanceType string) (catalog.Facts, bool)
	// hibernation is what EC2 has refused to launch for hibernation.
	hibernation *hibernation
}

// NoHibernation implements cloud.Power.
func (p *power) NoHibernation(class *awsv1.EC2NodeClass, instanceType string) string {
	facts, known := p.facts(instanceType)
	if !known {
		return "EC2 has not said yet whether instances of the type " + instanceType + " do"
	}
	return p.hibernation.why(class, facts, time.Now())
}

// StopInstances implements cloud.Power.
func (p *power) StopInstances(ctx context.Context, ids []string, hibernate bool) map[string]error {
	return p.all(ctx, "Stop", ids, func(ids []string) error {
		in := &ec2.StopInstancesInput{InstanceIds: ids}
		if hibernate {
			in.Hibernate = awssdk.Bool(true)
		}
		_, err := p.ec2.StopInstances(ctx, in)
		return err
	})
}

// StartInstances implements cloud.Power.
func (p *power) StartInstances(ctx context.Context, instances []cloud.Instance) map[string]error {
	var ids []string
	for _, i := range instances {
		ids = append(ids, i.ID)
	}
	out := p.all(ctx, "Start", ids, func(ids []string) error {
		_, err := p.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids})
		return err
	})
	for _, i := range instances {
		if refused, ok := cloud.AsPower(out[i.ID]); ok && refused.Code.OfOffering() {
			o := cloud.Option{InstanceType: i.InstanceType, Zone: i.Zone, CapacityType: i.CapacityType, PlacementGroup: i.PlacementGroupID}
			p.without(o, refused.Code, refused.Message)
		}
	}
	return out
}

// all makes a call for all instances, and returns the errors of those that were refused.
func (p *power) all(ctx context.Context, method string, ids []string, call func(ids []string) error) map[string]error {
	ids, out := slices.Clone(ids), map[string]error{}
	slices.Sort(ids)
	for chunk := range slices.Chunk(slices.Compact(ids), powerAtOnce) {
		p.some(ctx, method, chunk, call, out)
	}
	return out
}

// some splits a call that EC2 refuses for one of its instances until all others are done.
func (p *power) some(ctx context.Context, method string, ids []string, call func(ids []string) error, out map[string]error) {
	err := func() (err error) {
		defer p.measure(method)(&err)
		return call(ids)
	}()
	switch {
	case err == nil:
	case len(ids) > 1 && !isTransient(err):
		half := len(ids) / 2
		p.some(ctx, method, ids[:half], call, out)
		p.some(ctx, method, ids[half:], call, out)
	default:
		for _, id := range ids {
			out[id] = p.refused(ctx, id, err)
		}
	}
}

// refused returns what an error means for an instance.
func (p *power) refused(ctx context.Context, id string, err error) error {
	if p.isUnknown(ctx, id, err) {
		return &cloud.NotFoundError{InstanceID: id}
	}
	v := judge(err)
	out := &cloud.PowerError{InstanceID: id, Cause: v.cause, Code: v.code, Reason: v.reason, Message: v.message}
	switch c := code(err); {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		out.Cause, out.Code = cloud.CauseTransient, ec2error.NoAnswer
	case c == "UnsupportedOperation" || c == ec2error.UnsupportedHibernation:
		out.Cause, out.Reason, out.Message = cloud.CauseInvalid, string(c), withCode(c, message(err))
	case c == "IncorrectInstanceState":
		// It is on its way to another state.
		out.Reason = string(c)
	}
	return out
}
