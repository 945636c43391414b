package clusterview

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// WithUsers returns the classes with the problem of each ReadWriteOncePod claim that a pod uses which is not planned again: as long as it does,
// the scheduler lets no other pod be on any node.
func (v *View) WithUsers(classes []plan.Class) []plan.Class {
	claims := map[string]bool{}
	for i := range classes {
		for _, vol := range classes[i].Volumes {
			if vol.ReadWriteOncePod && vol.Problem == "" {
				claims[classes[i].Pod.Namespace+"/"+vol.Claim] = true
			}
		}
	}
	if len(claims) == 0 {
		return classes
	}
	users := v.users(claims)
	out := slices.Clone(classes)
	for i := range out {
		c := &out[i]
		c.Volumes = slices.Clone(c.Volumes)
		for k := range c.Volumes {
			vol := &c.Volumes[k]
			if user := users[c.Pod.Namespace+"/"+vol.Claim]; user != nil && vol.ReadWriteOncePod && vol.Problem == "" {
				vol.Problem = fmt.Sprintf("its access mode is ReadWriteOncePod, and pod %s/%s uses it", user.Namespace, user.Name)
			}
		}
	}
	return out
}

// users returns for each of the claims, given as namespace/name, a pod that uses it: one on a node, whether that terminates or
// not, or one on its way to a node. Claims that no pod uses, but for those that are planned again, are left out.
func (v *View) users(claims map[string]bool) map[string]*corev1.Pod {
	out := map[string]*corev1.Pod{}
	for _, ni := range v.all {
		v.addUsers(ni, claims, out)
	}
	for _, ni := range v.existing { // Those have pods that are kept.
		v.addUsers(ni, claims, out)
	}
	for _, ni := range v.inFlight {
		v.addUsers(ni, claims, out)
	}
	return out
}

func (v *View) addUsers(ni fwk.NodeInfo, claims map[string]bool, out map[string]*corev1.Pod) {
	if len(ni.GetPVCRefCounts()) == 0 {
		return
	}
	for _, p := range ni.GetPods() {
		pod := p.GetPod()
		if v.leave[pod.UID] || disruption.Terminal(pod) {
			continue
		}
		for _, vol := range pod.Spec.Volumes {
			if vol.PersistentVolumeClaim == nil {
				continue
			}
			if key := pod.Namespace + "/" + vol.PersistentVolumeClaim.ClaimName; claims[key] && out[key] == nil {
				out[key] = pod
			}
		}
	}
}
