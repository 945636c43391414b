package interrupt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// checkPeriod is how often EC2 is asked about impaired instances, as in Karpenter.
const checkPeriod = time.Minute

// Checker lists impaired instances; cloud.Cloud does.
type Checker interface {
	// Impaired lists the instances with failing status checks or scheduled events, other clusters' included.
	Impaired(ctx context.Context) ([]cloud.InstanceStatus, error)
}

// RunChecks asks EC2 every minute for impaired instances, and terminates their claims, until ctx ends and while leading. This covers
// scheduled events in a cluster without a queue, and failing checks, for which there is no event.
func (i *Interruptions) RunChecks(ctx context.Context) error {
	failed := func(err error) {
		klog.FromContext(ctx).Error(err, "Could not look at the status of instances; trying again each minute")
	}
	leadership.Every(ctx, i.config.Guard, checkPeriod, failed, i.check)
	return nil
}

// check runs one check. ctx is an effect's.
func (i *Interruptions) check(ctx context.Context) error {
	list, err := i.config.Checker.Impaired(ctx)
	if err != nil {
		return fmt.Errorf("status of instances: %w", err)
	}
	var errs []error
	for _, status := range list {
		if v := Judge(status, time.Now()); v.Reason != "" {
			errs = append(errs, i.endImpaired(ctx, status.ID, v))
		}
	}
	return errors.Join(errs...)
}

// endImpaired terminates the claim of an instance, if this launcher manages it. A drain of a machine that does not work protects nothing: one that
// has begun waits no longer.
func (i *Interruptions) endImpaired(ctx context.Context, id string, v Judgment) error {
	claim, err := i.claimOf(ctx, id)
	if err != nil || claim == nil || !i.config.Ours(claim) {
		return err
	}
	if claim.DeletionTimestamp != nil && (!v.Now || disruption.GraceIsOver(claim, time.Now()) || claim.StatusConditions().IsTrue(karpv1.ConditionTypeInstanceTerminating)) {
		return nil
	}
	node, err := i.nodeOf(ctx, claim)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Terminating a NodeClaim whose instance is impaired", "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName,
		"instanceID", id, "reason", v.Reason, "message", v.Message, "forceful", v.Now)
	i.metrics.unhealthy.WithLabelValues(categoryOf(v.Reason)).Inc()
	i.record(ctx, claim, node, Effect{
		EventType: "Warning", EventReason: "InstanceUnhealthy", EventMessage: "An unhealthy warning was triggered for the instance: " + v.Message,
	})
	if v.Now {
		return i.config.Ender.BeginNow(ctx, claim, v.Reason)
	}
	return i.config.Ender.Begin(ctx, claim, v.Reason)
}
