package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

func attachments(driver string) corev1.ResourceName {
	return corev1.ResourceName(attachPrefix + driver)
}

// addVolumes counts the attachments of the class and joins its terms with those of each volume.
func (d dims) addVolumes(c *class, volumes []Volume) {
	for _, v := range volumes {
		if v.Problem != "" {
			c.broken = &Reason{Code: "VolumeConflict", Message: fmt.Sprintf("volume claim %s: %s", v.Claim, v.Problem)}
			return
		}
		for d, name := range d {
			if v.Driver != "" && name == attachments(v.Driver) {
				c.need[d]++
			}
		}
		if len(v.Terms) == 0 || c.termsErr != nil {
			continue
		}
		places := termRequirements(v.Terms)
		if places == nil {
			c.broken = &Reason{Code: "VolumeConflict", Message: fmt.Sprintf("volume claim %s: the volume's node affinity has no term that can match", v.Claim)}
			return
		}
		if !c.join(places, v.origin()) {
			c.broken = &Reason{Code: "VolumeConflict", Message: fmt.Sprintf("volume claim %s: its volume is reached only from nodes with %s, which the pod's other demands rule out", v.Claim, termsText(places))}
			return
		}
	}
}

// origin describes for people what a requirement is from that the volume adds to a pod.
func (v *Volume) origin() string {
	if v.Name == "" {
		return "the topology of volume claim " + v.Claim
	}
	return fmt.Sprintf("where volume %s of claim %s is", v.Name, v.Claim)
}

// sharedVolumes are those of the class that count against what a node can attach.
func (d dims) sharedVolumes(c *class, volumes []Volume) []sharedVolume {
	var out []sharedVolume
	for _, v := range volumes {
		dim := slices.Index(d, attachments(v.Driver))
		if v.Driver != "" && dim >= 0 && claims(c.pod, v.Claim) {
			out = append(out, sharedVolume{claim: c.pod.Namespace + "/" + v.Claim, dim: dim})
		}
	}
	return out
}

// claims says that the pod names the volume claim: it is not made for this pod alone.
func claims(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name
	})
}

// needAt is what one pod of the class takes of the room: the volumes that pods there use already are attached.
func (r *room) needAt(c *class) vec {
	if len(c.shared) == 0 {
		return c.need
	}
	need := c.need.clone()
	for _, v := range c.shared {
		if r.attached[v.claim] {
			need[v.dim]--
		}
	}
	return need
}

// attach notes the volume claims of a pod in the room.
func (r *room) attach(namespace string, volumes []corev1.Volume) {
	for _, v := range volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		if r.attached == nil {
			r.attached = map[string]bool{}
		}
		r.attached[namespace+"/"+v.PersistentVolumeClaim.ClaimName] = true
	}
}
