package verify

import (
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// attachLimitsOf returns how many EBS volumes the nodes of claims and the nodes in flight can attach, by name. Nodes of types
// that the catalog gives no limit for are left out.
func attachLimitsOf(cat catalog.State, claims []plan.Claim) map[string]int64 {
	known := map[string]int64{} // by list of instance types and type
	for class, types := range cat.InstanceTypes {
		for i := range types {
			known[class+"/"+types[i].Name] = types[i].VolumeAttachments
		}
	}
	out := map[string]int64{}
	for i := range claims {
		c := &claims[i]
		out[c.Name] = known[cat.NodePools[c.NodePool].TypesKey()+"/"+c.Expected.InstanceType]
	}
	for name, n := range cat.InFlight {
		out[name] = known[cat.NodePools[n.NodePool].TypesKey()+"/"+n.InstanceType]
	}
	return out
}
