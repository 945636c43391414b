package standby

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// aboutHibernation reports whether EC2 may have refused a stop because it was a hibernation.
func aboutHibernation(refused *cloud.PowerError) bool {
	return refused.Code == ec2error.UnsupportedHibernation || refused.Code == "UnsupportedOperation" || refused.Code == "IncorrectInstanceState"
}

// hibernation reports whether the instance of a claim is hibernated, and where it is not, although its class wants that, why.
func (c *Controller) hibernation(ctx context.Context, claim *karpv1.NodeClaim) (hibernate bool, why string, err error) {
	wanted, why, err := c.config.Hibernation(ctx, claim)
	if err != nil || !wanted {
		return false, "", err
	}
	if why == "" {
		why = c.remember(claim.UID, func(*remembered) {}).awake
	}
	return why == "", why, nil
}

// notHibernated deals with EC2's refusal to hibernate an instance. It hibernates none that was just launched: that is tried again. Any other is stopped. The
// pods of its buffer have the node meanwhile.
func (c *Controller) notHibernated(ctx context.Context, o Observed, refused *cloud.PowerError) (time.Duration, error) {
	young := o.Now.Sub(record.StartedAt(o.Claim)) < hibernateWithin
	if slept := conditions.ClaimIs(o.Claim, record.ConditionStandby); slept || !young || refused.Code == ec2error.UnsupportedHibernation {
		klog.FromContext(ctx).Info("An instance is stopped: EC2 does not hibernate it", "nodeClaim", klog.KObj(o.Claim), "reason", refused.Message)
		c.remember(o.Claim.UID, func(r *remembered) { r.awake = refused.Message })
		return startAgain, nil
	}
	c.remember(o.Claim.UID, func(r *remembered) { r.again = time.Now().Add(hibernateAgain) })
	return hibernateAgain, c.enter(ctx, o.Claim, record.StandbyPreparing)
}
