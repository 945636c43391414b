package memory

import (
	"context"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// power implements cloud.Power for its Cloud.
type power struct{ of *Cloud }

// NoHibernation implements cloud.Power.
func (p power) NoHibernation(*awsv1.EC2NodeClass, string) string { return p.of.config.NoHibernation }

// StopInstances implements cloud.Power: an instance is stopped at once.
func (p power) StopInstances(ctx context.Context, ids []string, hibernate bool) map[string]error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.each(ctx, Stop, ids, func(i *instance, state cloud.InstanceState) error {
		switch {
		case catalog.CapacityTypeOf(i.CapacityType).Interruptible:
			return &cloud.PowerError{InstanceID: i.ID, Cause: cloud.CauseInvalid, Code: "UnsupportedOperation", Reason: "UnsupportedOperation", Message: "a spot instance cannot be stopped"}
		case hibernate && !i.Hibernates:
			return &cloud.PowerError{
				InstanceID: i.ID, Cause: cloud.CauseInvalid, Code: "UnsupportedHibernationConfiguration", Reason: "UnsupportedHibernationConfiguration",
				Message: "it was launched without hibernation",
			}
		case hibernate && time.Since(i.LaunchTime) < p.of.config.HibernateAfter:
			return incorrect(i.ID, state)
		case state == cloud.StateRunning:
			i.stoppedAt, i.Hibernated = time.Now(), hibernate
		case i.stoppedAt.IsZero():
			return incorrect(i.ID, state)
		}
		return nil
	})
}

// StartInstances implements cloud.Power.
func (p power) StartInstances(ctx context.Context, instances []cloud.Instance) map[string]error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	var ids []string
	for _, i := range instances {
		ids = append(ids, i.ID)
	}
	return p.each(ctx, Start, ids, func(i *instance, state cloud.InstanceState) error {
		switch key := (Offering{i.InstanceType, i.Zone, i.CapacityType}); {
		case state == cloud.StateRunning || state == cloud.StatePending:
			return nil
		case state != cloud.StateStopped:
			return incorrect(i.ID, state)
		case !p.of.take(key):
			p.of.iceUntil[key] = time.Now().Add(p.of.config.ICEFor)
			p.of.touchLocked()
			return &cloud.PowerError{
				InstanceID: i.ID, Cause: cloud.CauseCapacity, Code: "InsufficientInstanceCapacity", Reason: "InsufficientCapacity",
				Message: "there is no capacity for " + i.InstanceType + " in " + i.Zone,
			}
		}
		i.stoppedAt, i.LaunchTime = time.Time{}, time.Now()
		return nil
	})
}

func incorrect(id string, state cloud.InstanceState) error {
	return &cloud.PowerError{
		InstanceID: id, Cause: cloud.CauseTransient, Code: "IncorrectInstanceState", Reason: "IncorrectInstanceState", Message: "it is " + string(state),
	}
}

// each applies a change to instances, and returns the errors. The caller holds the Cloud's mu.
func (p power) each(ctx context.Context, call Call, ids []string, change func(*instance, cloud.InstanceState) error) map[string]error {
	out, failed := map[string]error{}, p.of.begin(ctx, call)
	for _, id := range ids {
		i, ok := p.of.instances[id]
		switch {
		case failed != nil:
			out[id] = &cloud.PowerError{InstanceID: id, Cause: cloud.CauseTransient, Reason: "RequestFailed", Message: failed.Error()}
		case !ok || i.forgotten(time.Now(), p.of.config):
			out[id] = &cloud.NotFoundError{InstanceID: id}
		default:
			if err := change(i, p.of.describe(i, time.Now()).State); err != nil {
				out[id] = err
			}
		}
	}
	return out
}
