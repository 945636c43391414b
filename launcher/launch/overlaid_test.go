package launch_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
)

// With NodeOverlays the NodePool's prices decide the order, EC2 is asked to keep to it, and the claim has Karpenter's annotations and the
// capacity that was planned. Without them EC2 chooses, and the claim has neither.
func TestOverlaysAreFollowed(t *testing.T) {
	for name, overlaid := range map[string]bool{"with": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, memory.Config{}, func(t *testing.T, w *world) {
				t.Helper()
				first, fuse := "m7g.large", int64(0)
				if overlaid {
					first, fuse = "m7g.xlarge", 5
					large, xlarge := instanceType("m7g.large", 0.08), instanceType("m7g.xlarge", 0.01)
					for i := range xlarge.Offerings {
						xlarge.Offerings[i].Overlaid = true
					}
					xlarge.Overlaid = true
					xlarge.Capacity["smarter-devices/fuse"] = resource.MustParse("5")
					w.overlaid = map[string][]catalog.InstanceType{"default": {large, xlarge}}
				}
				claim := w.newClaim("default-1")
				w.create(claim)
				w.subject.Enqueue(claim)
				w.settle(time.Second)
				in, got := w.inputs[0], w.claims()[0]
				if in.Options[0].InstanceType != first || in.Prioritized != overlaid {
					t.Errorf("the first option is %s, prioritized %t", in.Options[0].InstanceType, in.Prioritized)
				}
				price, capacity := got.Annotations[v1alpha1.PriceOverlayAppliedAnnotationKey], got.Annotations[v1alpha1.CapacityOverlayAppliedAnnotationKey]
				if (price == "true") != overlaid || (capacity == "true") != overlaid {
					t.Errorf("the claim's annotations are %v", got.Annotations)
				}
				if q := got.Status.Capacity["smarter-devices/fuse"]; q.Value() != fuse {
					t.Errorf("the claim's capacity is %v, want %d devices", got.Status.Capacity, fuse)
				}
			})
		})
	}
}

func (w *world) overlaidTypes(_ context.Context, pool string) ([]catalog.InstanceType, bool) {
	list, ok := w.overlaid[pool]
	return list, ok
}
