package nodeoverlay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
)

// memory is the last result with what it follows from.
type memory struct {
	objects string
	types   map[string][]catalog.InstanceType
	result  overlay.Result
}

// Apply returns what the NodeOverlays make of the instance types of all classes, by their names. While nothing has changed it returns the same
// lists. With an error, the result is the last one.
func (c *Controller) Apply(ctx context.Context, types map[string][]catalog.InstanceType) (overlay.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var overlays v1alpha1.NodeOverlayList
	var pools karpv1.NodePoolList
	for _, list := range []client.ObjectList{&overlays, &pools} {
		if err := c.config.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return c.last.result, fmt.Errorf("listing NodeOverlays and NodePools: %w", err)
		}
	}
	objects := versions(overlays.Items, pools.Items)
	if c.last.objects == objects && maps.EqualFunc(c.last.types, types, same) {
		return c.last.result, nil
	}
	in := overlay.Input{Types: types}
	for i := range overlays.Items {
		if overlays.Items[i].DeletionTimestamp.IsZero() {
			in.Overlays = append(in.Overlays, &overlays.Items[i])
		}
	}
	for i := range pools.Items {
		p := overlay.Pool{Name: pools.Items[i].Name, Labels: template.Labels(&pools.Items[i])}
		if ref := pools.Items[i].Spec.Template.Spec.NodeClassRef; ref != nil {
			p.NodeClass = ref.Name
		}
		in.Pools = append(in.Pools, p)
	}
	c.last = memory{objects: objects, types: maps.Clone(types), result: overlay.Evaluate(ctx, in)}
	return c.last.result, nil
}

// versions returns a key of the specs of all objects.
func versions(overlays []v1alpha1.NodeOverlay, pools []karpv1.NodePool) string {
	var keys []string
	for i := range overlays {
		o := &overlays[i]
		keys = append(keys, "o"+string(o.UID)+"/"+strconv.FormatInt(o.Generation, 10)+strconv.FormatBool(o.DeletionTimestamp.IsZero()))
	}
	for i := range pools {
		keys = append(keys, "p"+string(pools[i].UID)+"/"+strconv.FormatInt(pools[i].Generation, 10))
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

// same reports whether two answers of the cloud are the same list.
func same(a, b []catalog.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Overlaid returns the instance types of a NodePool that differ from those of its class, and whether they do.
func (c *Controller) Overlaid(ctx context.Context, pool string) ([]catalog.InstanceType, bool) {
	result, err := c.evaluate(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "NodeOverlays could not be read: those that were read last count")
	}
	_, list, ok := result.Of(pool)
	return list, ok
}

// evaluate applies the NodeOverlays to what the cloud offers now. A class without an answer has no instance types.
func (c *Controller) evaluate(ctx context.Context) (overlay.Result, error) {
	var classes awsv1.EC2NodeClassList
	if err := c.config.Client.List(ctx, &classes); err != nil {
		return c.Last(), fmt.Errorf("listing EC2NodeClasses: %w", err)
	}
	types := map[string][]catalog.InstanceType{}
	for i := range classes.Items {
		list, err := c.config.Offers.InstanceTypes(ctx, &classes.Items[i])
		if err != nil {
			klog.FromContext(ctx).V(2).Info("NodeOverlays are applied to the other EC2NodeClasses", "EC2NodeClass", classes.Items[i].Name, "err", err)
			continue
		}
		types[classes.Items[i].Name] = list
	}
	return c.Apply(ctx, types)
}

// Last returns the last result.
func (c *Controller) Last() overlay.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.result
}
