package clusterview

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

// attachable is how many more volumes the node can attach, by CSI driver; nil for no limit that is known.
func (v *View) attachable(ni *framework.NodeInfo, inFlight *catalog.InFlightNode) map[string]int64 {
	if v.volumes == nil {
		return nil
	}
	out := map[string]int64{}
	if inFlight != nil {
		for i := range v.types[inFlight.NodePool] {
			if t := &v.types[inFlight.NodePool][i]; t.Name == inFlight.InstanceType && t.VolumeAttachments > 0 {
				out[podclass.EBSDriver] = t.VolumeAttachments
			}
		}
	} else if v.csiNodes != nil {
		if n, err := v.csiNodes.Get(ni.Node().Name); err == nil {
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
		v.attached(p.GetPod(), seen, out)
	}
	return out
}

// attached takes the pod's volumes off what is left, each once.
func (v *View) attached(pod *corev1.Pod, seen map[string]bool, left map[string]int64) {
	if len(pod.Spec.Volumes) == 0 {
		return
	}
	for _, v := range v.volumes.Of(pod) {
		key := pod.Namespace + "/" + v.Claim
		if _, limited := left[v.Driver]; limited && !seen[key] {
			seen[key] = true
			left[v.Driver]--
		}
	}
}
