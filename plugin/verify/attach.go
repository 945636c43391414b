package verify

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// attachLimits are how many EBS volumes the nodes of claims and those in flight can attach, by name, as far as the
// catalog knows.
func (s *scene) attachLimits(cat catalog.State) map[string]int64 {
	known := map[string]int64{} // by EC2NodeClass and type
	for class, types := range cat.InstanceTypes {
		for i := range types {
			known[class+"/"+types[i].Name] = types[i].VolumeAttachments
		}
	}
	out := map[string]int64{}
	for i := range s.claims {
		c := &s.claims[i]
		out[c.Name] = known[cat.NodePools[c.NodePool].NodeClass+"/"+c.Expected.InstanceType]
	}
	for name, n := range cat.InFlight {
		out[name] = known[cat.NodePools[n.NodePool].NodeClass+"/"+n.InstanceType]
	}
	return out
}

// attachable is how many more volumes the node can attach, by CSI driver; nil for no limit that is known.
func (w *World) attachable(ni *framework.NodeInfo, inFlight *catalog.InFlightNode) map[string]int64 {
	if w.volumes == nil {
		return nil
	}
	out := map[string]int64{}
	if inFlight != nil {
		for i := range w.types[inFlight.NodePool] {
			if t := &w.types[inFlight.NodePool][i]; t.Name == inFlight.InstanceType && t.VolumeAttachments > 0 {
				out[ebsDriver] = t.VolumeAttachments
			}
		}
	} else if w.csiNodes != nil {
		if n, err := w.csiNodes.Get(ni.Node().Name); err == nil {
			for _, d := range n.Spec.Drivers {
				if d.Allocatable != nil && d.Allocatable.Count != nil {
					out[d.Name] = int64(*d.Allocatable.Count)
				}
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, p := range ni.Pods {
		w.attached(p.GetPod(), seen, out)
	}
	return out
}

// attached takes the pod's volumes off what is left, each once.
func (w *World) attached(pod *corev1.Pod, seen map[string]bool, left map[string]int64) {
	if len(pod.Spec.Volumes) == 0 {
		return
	}
	for _, v := range w.volumes.Of(pod) {
		key := pod.Namespace + "/" + v.Claim
		if _, limited := left[v.Driver]; limited && !seen[key] {
			seen[key] = true
			left[v.Driver]--
		}
	}
}
