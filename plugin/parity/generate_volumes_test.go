package parity_test

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (d dice) storage(c *cluster) {
	for i, zones := range [][]string{nil, {"us-east-1b"}, {"us-east-1a", "us-east-1c"}, nil} {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		if i == 3 {
			mode = storagev1.VolumeBindingImmediate
		}
		sc := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", i)}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &mode,
		}
		if zones != nil {
			sc.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{
				Key: pick(d, "topology.ebs.csi.aws.com/zone", corev1.LabelTopologyZone), Values: zones,
			}}}}
		}
		c.classes = append(c.classes, sc)
	}
}

// volume gives the pod, or the pods of the template, a claim: one that others have too, one that is bound in a zone or waits for its first consumer, or
// one that each pod gets for itself.
func (d dice) volume(c *cluster, p *corev1.Pod) {
	others := slices.DeleteFunc(slices.Clone(c.claims), func(pvc *corev1.PersistentVolumeClaim) bool {
		return pvc.Namespace != p.Namespace || len(pvc.OwnerReferences) > 0 || has(p, pvc)
	})
	switch d.IntN(4) {
	case 0:
		if len(others) > 0 {
			p.Spec.Volumes = append(p.Spec.Volumes, claimed(pick(d, others...)))
			return
		}
	case 1:
		p.Spec.Volumes = append(p.Spec.Volumes, d.ephemeral(c, fmt.Sprintf("own-%d", len(p.Spec.Volumes))))
		return
	}
	pvc := d.claim(c, p)
	if d.IntN(2) == 0 {
		d.bind(c, pvc, pick(d, "us-east-1a", "us-east-1b"))
	}
}

// ephemeral is a volume whose claim is made for each pod.
func (d dice) ephemeral(c *cluster, name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: d.claimSpec(c)},
	}}}
}

// ownClaims makes the claims of the pod's ephemeral volumes: most are bound, each in a zone of its own, some are late.
func (d dice) ownClaims(c *cluster, p *corev1.Pod) {
	for _, v := range p.Spec.Volumes {
		if v.Ephemeral == nil || d.IntN(8) == 0 {
			continue
		}
		name := p.Name + "-" + v.Name
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: name, UID: types.UID(name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
		}, Spec: *v.Ephemeral.VolumeClaimTemplate.Spec.DeepCopy()}
		pvc.Status.Phase = corev1.ClaimPending
		c.claims = append(c.claims, pvc)
		if d.IntN(4) > 0 {
			d.bind(c, pvc, pick(d, "us-east-1a", "us-east-1b", "us-east-1c"))
		}
	}
}

// attached gives a pod that runs on the node volumes that are attached there, now and then that of another pod.
func (d dice) attached(c *cluster, p *corev1.Pod, n *corev1.Node) {
	for range 1 + d.IntN(2) {
		if last := len(c.claims) - 1; last >= 0 && d.IntN(3) == 0 {
			shared := c.claims[last]
			once := slices.Contains(shared.Spec.AccessModes, corev1.ReadWriteOncePod)
			if !once && shared.Annotations[onAnnotation] == n.Name && shared.Namespace == p.Namespace && !has(p, shared) {
				p.Spec.Volumes = append(p.Spec.Volumes, claimed(shared))
				continue
			}
		}
		zone := n.Labels[corev1.LabelTopologyZone]
		if zone == "" {
			zone = "us-east-1a"
		}
		pvc := d.claim(c, p)
		d.bind(c, pvc, zone)
		pvc.Annotations[onAnnotation] = n.Name
	}
}

// onAnnotation says on which node the claim's volume is attached.
const onAnnotation = "parity/on"

// claim is a new one of the pod, pending.
func (d dice) claim(c *cluster, p *corev1.Pod) *corev1.PersistentVolumeClaim {
	name := fmt.Sprintf("claim-%d", len(c.claims))
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, UID: types.UID(name)}}
	pvc.Spec = d.claimSpec(c)
	pvc.Status.Phase = corev1.ClaimPending
	c.claims = append(c.claims, pvc)
	p.Spec.Volumes = append(p.Spec.Volumes, claimed(pvc))
	return pvc
}

// claimSpec is what a claim asks for.
func (d dice) claimSpec(c *cluster) corev1.PersistentVolumeClaimSpec {
	out := corev1.PersistentVolumeClaimSpec{StorageClassName: &pick(d, c.classes...).Name}
	out.AccessModes = []corev1.PersistentVolumeAccessMode{pick(d, corev1.ReadWriteOnce, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)}
	out.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return out
}

func claimed(pvc *corev1.PersistentVolumeClaim) corev1.Volume {
	return corev1.Volume{Name: pvc.Name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc.Name},
	}}
}

// has says that the pod uses the claim.
func has(p *corev1.Pod, pvc *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == pvc.Name })
}

// bind gives the claim a volume in the zone.
func (d dice) bind(c *cluster, pvc *corev1.PersistentVolumeClaim, zone string) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + pvc.Name, UID: types.UID("pv-" + pvc.Name)}}
	pv.Spec.Capacity, pv.Spec.AccessModes, pv.Spec.StorageClassName = pvc.Spec.Resources.Requests, pvc.Spec.AccessModes, *pvc.Spec.StorageClassName
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + pvc.Name}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: pvc.Namespace, Name: pvc.Name, UID: pvc.UID}
	pv.Status.Phase = corev1.VolumeBound
	if d.IntN(3) == 0 && len(pvc.OwnerReferences) == 0 { // VolumeZone, which reads the label, knows no ephemeral volumes.
		pv.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	} else {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}}
	}
	pvc.Spec.VolumeName, pvc.Status.Phase = pv.Name, corev1.ClaimBound
	pvc.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
	c.volumes = append(c.volumes, pv)
}
