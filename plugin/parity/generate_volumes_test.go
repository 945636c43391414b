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
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	for i, zones := range [][]string{nil, {"us-east-1b"}, {"us-east-1a", "us-east-1c"}} {
		sc := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", i)}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &wait,
		}
		if zones != nil {
			sc.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{
				Key: pick(d, "topology.ebs.csi.aws.com/zone", corev1.LabelTopologyZone), Values: zones,
			}}}}
		}
		c.classes = append(c.classes, sc)
	}
}

// volume gives the pod, or the pods of the template, a claim: bound in a zone, or waiting for its first consumer.
func (d dice) volume(c *cluster, p *corev1.Pod) {
	pvc := d.claim(c, p)
	if d.IntN(2) == 0 {
		d.bind(c, pvc, pick(d, "us-east-1a", "us-east-1b"))
	}
}

// attached gives a pod that runs on the node volumes that are attached there, now and then that of another pod.
func (d dice) attached(c *cluster, p *corev1.Pod, n *corev1.Node) {
	for range 1 + d.IntN(2) {
		if last := len(c.claims) - 1; last >= 0 && d.IntN(3) == 0 {
			shared := c.claims[last]
			if shared.Annotations[onAnnotation] == n.Name && shared.Namespace == p.Namespace && !slices.Contains(p.Spec.Volumes, claimed(shared)) {
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
	pvc.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pvc.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	sc := pick(d, c.classes...).Name
	pvc.Spec.StorageClassName = &sc
	pvc.Status.Phase = corev1.ClaimPending
	c.claims = append(c.claims, pvc)
	p.Spec.Volumes = append(p.Spec.Volumes, claimed(pvc))
	return pvc
}

func claimed(pvc *corev1.PersistentVolumeClaim) corev1.Volume {
	return corev1.Volume{Name: pvc.Name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvc.Name},
	}}
}

// bind gives the claim a volume in the zone.
func (d dice) bind(c *cluster, pvc *corev1.PersistentVolumeClaim, zone string) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + pvc.Name, UID: types.UID("pv-" + pvc.Name)}}
	pv.Spec.Capacity, pv.Spec.AccessModes, pv.Spec.StorageClassName = pvc.Spec.Resources.Requests, pvc.Spec.AccessModes, *pvc.Spec.StorageClassName
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + pvc.Name}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: pvc.Namespace, Name: pvc.Name, UID: pvc.UID}
	pv.Status.Phase = corev1.VolumeBound
	if d.IntN(3) == 0 {
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
