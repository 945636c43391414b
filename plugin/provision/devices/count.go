package devices

import (
	"context"
	"errors"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"

	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// maxCounted bounds how many pods of one node are counted: a claim for administrators' access takes no device.
const maxCounted = 128

// counter asks the scheduler's allocator how many pods a node serves.
type counter struct {
	classes  fwk.DeviceClassLister
	features structured.Features
	compiled *cel.Cache
}

func newCounter(classes fwk.DeviceClassLister) *counter {
	fts := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	return &counter{
		classes: classes, features: dynamicresources.AllocatorFeatures(fts),
		compiled: cel.NewCache(100, cel.Features{
			EnableConsumableCapacity: fts.EnableDRAConsumableCapacity, EnableListTypeAttributes: fts.EnableDRAListTypeAttributes,
		}),
	}
}

// served is how many pods a node serves, and the drivers of their devices.
type served struct {
	pods    int
	drivers sets.Set[string]
}

// count allocates the claims of one pod after another, as the scheduler will, until the devices are used up. Devices that several
// claims may share count as used up by the first.
func (c *counter) count(ctx context.Context, node string, slices []*resourcev1.ResourceSlice, claims []*resourcev1.ResourceClaim) (served, error) {
	out := served{drivers: sets.New[string]()}
	virtual := clusterview.VirtualNode(node, map[string]string{}, nil, nil)
	used := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for out.pods < maxCounted {
		allocator, err := structured.NewAllocator(ctx, c.features, used, c.classes, slices, c.compiled)
		if err != nil {
			return served{}, fmt.Errorf("allocating devices: %w", err)
		}
		results, err := allocator.Allocate(ctx, virtual, claims)
		switch {
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			return out, nil
		case err != nil:
			return served{}, fmt.Errorf("allocating devices: %w", err)
		case len(results) != len(claims):
			return out, nil
		}
		out.pods++
		for i := range results {
			for _, d := range results[i].Devices.Results {
				out.drivers.Insert(d.Driver)
				if !ptr.Deref(d.AdminAccess, false) {
					used.AllocatedDevices.Insert(structured.MakeDeviceID(d.Driver, d.Pool, d.Device))
				}
			}
		}
	}
	return out, nil
}
