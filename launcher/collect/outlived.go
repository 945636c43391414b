package collect

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
)

// follow writes on the Nodes and the NodeClaim of an instance as which capacity type it runs on. The NodeClaim is the last: as long as it has the old
// one, all of this is repeated.
func (c *Collector) follow(ctx context.Context, o Outlived) error {
	const message = "Capacity reservation %s has ended: instance %s runs on as %s"
	was, reservation := o.Claim.Labels[karpv1.CapacityTypeLabelKey], o.Claim.Labels[catalog.LabelReservationID]
	nodes := &corev1.NodeList{}
	if err := c.config.Client.List(ctx, nodes, client.MatchingFields{index.NodeProviderID: o.Claim.Status.ProviderID}); err != nil {
		return fmt.Errorf("listing Nodes of NodeClaim %s: %w", o.Claim.Name, err)
	}
	for i := range nodes.Items {
		have := &nodes.Items[i]
		if have.Labels[karpv1.CapacityTypeLabelKey] != was {
			continue
		}
		want := have.DeepCopy()
		relabel(want.Labels, o.Instance)
		if err := client.IgnoreNotFound(nodeobj.Patch(ctx, c.config.Client, have, want)); err != nil {
			return err
		}
		c.config.Events.Eventf(want, corev1.EventTypeNormal, "CapacityReservationEnded", message, reservation, o.Instance.ID, o.Instance.CapacityType)
	}
	claim := o.Claim.DeepCopy()
	relabel(claim.Labels, o.Instance)
	if claim.Annotations[catalog.ExpectedAnnotation] != "" {
		if err := c.config.Price(ctx, claim, o.Instance); err != nil {
			return fmt.Errorf("pricing NodeClaim %s: %w", claim.Name, err)
		}
	}
	if err := c.config.Client.Patch(ctx, claim, nodeobj.ClaimMetadata(o.Claim)); err != nil {
		return client.IgnoreNotFound(err)
	}
	c.config.Events.Eventf(claim, corev1.EventTypeNormal, "CapacityReservationEnded", message, reservation, o.Instance.ID, o.Instance.CapacityType)
	klog.FromContext(ctx).Info("A capacity reservation has ended: an instance runs on", "nodeClaim", klog.KObj(claim), "instanceID", o.Instance.ID,
		"reservation", reservation, "was", was, "capacityType", o.Instance.CapacityType)
	return nil
}

// relabel replaces the labels of a capacity type by those of the instance's.
func relabel(labels map[string]string, i cloud.Instance) {
	labels[karpv1.CapacityTypeLabelKey] = i.CapacityType
	for _, key := range catalog.ReservationLabelKeys() {
		delete(labels, key)
	}
}
