package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// attachPrefix begins the name of the dimension that counts the volumes of a CSI driver on a node.
	attachPrefix = "attachable-volumes-csi-"
	// driverEBS is the CSI driver whose limit EC2 instance types have.
	driverEBS = "ebs.csi.aws.com"
	// unlimited is more than any node can have of anything.
	unlimited = int64(1) << 40
	// maxTerms bounds the alternatives that the volumes of one pod may add up to.
	maxTerms = 256
)

func attachments(driver string) corev1.ResourceName {
	return corev1.ResourceName(attachPrefix + driver)
}

// attachLimits is how many volumes a new node of the type can attach, by driver.
func attachLimits(it *catalog.InstanceType) map[string]int64 {
	if it.VolumeAttachments <= 0 {
		return nil
	}
	return map[string]int64{driverEBS: it.VolumeAttachments}
}

// addVolumes counts the attachments of the class and joins its terms with those of each volume.
func (m *model) addVolumes(c *class, volumes []Volume) {
	for _, v := range volumes {
		if v.Problem != "" {
			c.broken = &Reason{Code: "VolumeConflict", Message: fmt.Sprintf("volume claim %s: %s", v.Claim, v.Problem)}
			return
		}
		for d, name := range m.dims {
			if v.Driver != "" && name == attachments(v.Driver) {
				c.need[d]++
			}
		}
		if len(v.Terms) == 0 || c.termsErr != nil {
			continue
		}
		places, err := termRequirements(v.Terms)
		if err != nil {
			c.broken = &Reason{Code: "VolumeConflict", Message: fmt.Sprintf("volume claim %s: %v", v.Claim, err)}
			return
		}
		var joined []catalog.Requirements
		for _, t := range c.terms {
			for _, p := range places {
				if both := t.Intersect(p); len(joined) < maxTerms {
					if _, none := both.Conflict(); !none {
						joined = append(joined, both)
					}
				}
			}
		}
		if len(joined) == 0 {
			c.broken = &Reason{Code: "VolumeConflict", Message: fmt.Sprintf("volume claim %s: its volume is reached only from nodes with %s, which the pod's other demands rule out", v.Claim, termsText(places))}
			return
		}
		c.terms = joined
	}
}

// termRequirements are the terms that can match some node.
func termRequirements(terms []corev1.NodeSelectorTerm) ([]catalog.Requirements, error) {
	selector := &corev1.NodeSelector{NodeSelectorTerms: terms}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}}}
	out, err := PodRequirements(pod)
	if err != nil {
		return nil, fmt.Errorf("the volume's node affinity has no term that can match")
	}
	return out, nil
}
