package verify

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// virtualDevices is the scheduler's own manager, with the ResourceSlices of nodes to launch beside those that drivers published.
type virtualDevices struct {
	fwk.SharedDRAManager
	of      func(nodeClass, instanceType, node string) []*resourcev1.ResourceSlice
	virtual []*resourcev1.ResourceSlice
}

var (
	_ fwk.SharedDRAManager    = &virtualDevices{}
	_ fwk.ResourceSliceLister = &virtualDevices{}
)

// put sets the nodes to launch: those of the claims that have pods with ResourceClaims.
func (d *virtualDevices) put(claims []plan.Claim, classes []plan.Class, cat catalog.State) {
	if d == nil || d.of == nil {
		return
	}
	d.virtual = nil
	for i := range claims {
		c := &claims[i]
		if slices.ContainsFunc(c.Members, func(m plan.Member) bool { return len(classes[m.Class].Pod.Spec.ResourceClaims) > 0 }) {
			d.virtual = append(d.virtual, d.of(cat.NodePools[c.NodePool].NodeClass, c.Expected.InstanceType, c.Name)...)
		}
	}
}

// ResourceSlices returns the lister of all of them.
func (d *virtualDevices) ResourceSlices() fwk.ResourceSliceLister { return d }

// ListWithDeviceTaintRules lists the published slices, and those of nodes to launch.
func (d *virtualDevices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	published, err := d.SharedDRAManager.ResourceSlices().ListWithDeviceTaintRules()
	return slices.Concat(published, d.virtual), err
}
