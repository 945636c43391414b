package launch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// overlaidTypes returns the instance types of a NodePool whose NodeOverlays make them differ from its class's, and whether they do.
type overlaidTypes func(ctx context.Context, pool string) ([]catalog.InstanceType, bool)

// or returns those of the NodePool, or those of its class if NodeOverlays change none of them.
func (o overlaidTypes) or(ctx context.Context, pool string, ofClass []catalog.InstanceType) []catalog.InstanceType {
	if o == nil {
		return ofClass
	}
	if own, ok := o(ctx, pool); ok {
		return own
	}
	return ofClass
}

// overlays says which of NodeOverlays' changes an attempt's options have.
type overlays struct{ price, capacity bool }

func overlaysOf(options []cloud.Option, types map[string]catalog.InstanceType) overlays {
	var out overlays
	for _, o := range options {
		t := types[o.InstanceType]
		out.capacity = out.capacity || t.Overlaid
		for _, of := range t.Offerings {
			out.price = out.price || of.Overlaid && of.Zone == o.Zone && of.CapacityType == o.CapacityType && of.ReservationID == o.Reservation.ID
		}
	}
	return out
}

// annotate writes Karpenter's annotations on a claim.
func (o overlays) annotate(c *karpv1.NodeClaim) {
	if o.price {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.PriceOverlayAppliedAnnotationKey, "true")
	}
	if o.capacity {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.CapacityOverlayAppliedAnnotationKey, "true")
	}
}
