package podclass

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// EBSDriver is the CSI driver of EBS volumes.
const EBSDriver = "ebs.csi.aws.com"

// Volumes finds where the volumes of pods can be used.
type Volumes struct {
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
}

// NewVolumes returns Volumes that read the informers. They need not have been started.
func NewVolumes(f informers.SharedInformerFactory) *Volumes {
	return &Volumes{
		claims:  f.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: f.Core().V1().PersistentVolumes().Lister(),
		classes: f.Storage().V1().StorageClasses().Lister(),
	}
}

// Of lists the pod's persistent volumes for plan.Class.
func (v *Volumes) Of(pod *corev1.Pod) []plan.Volume {
	var out []plan.Volume
	for i := range pod.Spec.Volumes {
		if name, ok := claimName(pod, &pod.Spec.Volumes[i]); ok {
			one := v.of(pod.Namespace, name)
			one.ReadWriteOncePod = one.ReadWriteOncePod && pod.Spec.Volumes[i].Ephemeral == nil
			out = append(out, one)
		}
	}
	return out
}

func claimName(pod *corev1.Pod, v *corev1.Volume) (string, bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, true
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name, true
	}
	return "", false
}

// of returns the volume of one claim.
func (v *Volumes) of(namespace, name string) plan.Volume {
	out := plan.Volume{Claim: name}
	pvc, err := v.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		out.Problem = "it does not exist"
		return out
	}
	out.ReadWriteOncePod = slices.Contains(pvc.Spec.AccessModes, corev1.ReadWriteOncePod)
	switch {
	case pvc.DeletionTimestamp != nil:
		out.Problem = "it is being deleted"
	case pvc.Status.Phase == corev1.ClaimLost:
		out.Problem = "its volume is lost"
	case pvc.Spec.VolumeName != "":
		pv, err := v.volumes.Get(pvc.Spec.VolumeName)
		if err != nil {
			out.Problem = fmt.Sprintf("its volume %s does not exist", pvc.Spec.VolumeName)
			return out
		}
		out.Name, out.Driver, out.Terms = pv.Name, driverOf(pv), terms(volumePlace(pv))
	default:
		v.unbound(&out, pvc)
	}
	return out
}

// unbound adds what the StorageClass of a claim without a volume says.
func (v *Volumes) unbound(out *plan.Volume, pvc *corev1.PersistentVolumeClaim) {
	className := volume.GetPersistentVolumeClaimClass(pvc)
	if className == "" {
		out.Problem = "it is not bound yet, and names no storageclass"
		return
	}
	class, err := v.classes.Get(className)
	switch {
	case err != nil:
		out.Problem = fmt.Sprintf("its storageclass %q does not exist", className)
	case class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		out.Problem = "it is not bound yet, which needs no node"
	case class.Provisioner == volume.NotSupportedProvisioner:
		v.matching(out, pvc, className)
	default:
		out.Driver, out.Terms = migrated(class.Provisioner), terms(allowedTopologies(class))
	}
}

func terms(s *corev1.NodeSelector) []corev1.NodeSelectorTerm {
	if s == nil {
		return nil
	}
	return s.NodeSelectorTerms
}

// driverOf returns the CSI driver that attaches the volume; empty for a volume that no CSI driver attaches.
func driverOf(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.CSI != nil:
		return pv.Spec.CSI.Driver
	case pv.Spec.AWSElasticBlockStore != nil:
		return EBSDriver
	}
	return ""
}

// migrated returns the CSI driver that replaces an in-tree provisioner, and the name itself for any other.
func migrated(provisioner string) string {
	if provisioner == "kubernetes.io/aws-ebs" {
		return EBSDriver
	}
	return provisioner
}

// volumePlace returns where the volume can be used: its node affinity and, for older volumes, their labels of zone and region as
// the scheduler's VolumeZone plugin reads them. Nil means anywhere.
func volumePlace(pv *corev1.PersistentVolume) *corev1.NodeSelector {
	var out *corev1.NodeSelector
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		out = a.Required
	}
	for _, key := range []string{
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	} {
		value, ok := pv.Labels[key]
		if !ok {
			continue
		}
		// VolumeZone reads the label of a volume in several zones like this.
		values := strings.Split(value, "__")
		out = both(out, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}})
	}
	return out
}

// matching adds the places of the volumes to which a claim without a provisioner could be bound.
func (v *Volumes) matching(out *plan.Volume, pvc *corev1.PersistentVolumeClaim, className string) {
	all, err := v.volumes.List(labels.Everything())
	if err != nil {
		out.Problem = err.Error()
		return
	}
	asked := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	found, anywhere := false, false
	for _, pv := range all {
		size := pv.Spec.Capacity[corev1.ResourceStorage]
		ref := pv.Spec.ClaimRef
		free := ref == nil || ref.Namespace == pvc.Namespace && ref.Name == pvc.Name && (ref.UID == "" || ref.UID == pvc.UID)
		if pv.Spec.StorageClassName != className || size.Cmp(asked) < 0 || !free || pv.DeletionTimestamp != nil {
			continue
		}
		place := terms(volumePlace(pv))
		found, anywhere = true, anywhere || len(place) == 0
		out.Driver = driverOf(pv)
		out.Terms = append(out.Terms, place...)
	}
	if anywhere {
		out.Terms = nil
	}
	if !found {
		out.Problem = fmt.Sprintf("no free persistentvolume of storageclass %s is large enough, and it provisions none", className)
	}
	slices.SortFunc(out.Terms, func(a, b corev1.NodeSelectorTerm) int { return strings.Compare(a.String(), b.String()) })
}

func allowedTopologies(class *storagev1.StorageClass) *corev1.NodeSelector {
	if len(class.AllowedTopologies) == 0 {
		return nil
	}
	out := &corev1.NodeSelector{}
	for _, t := range class.AllowedTopologies {
		term := corev1.NodeSelectorTerm{}
		for _, e := range t.MatchLabelExpressions {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values,
			})
		}
		out.NodeSelectorTerms = append(out.NodeSelectorTerms, term)
	}
	return out
}

// both returns the places that satisfy a and b: each term of a combined with each term of b.
func both(a, b *corev1.NodeSelector) *corev1.NodeSelector {
	if a == nil || len(a.NodeSelectorTerms) == 0 {
		return b
	}
	if b == nil || len(b.NodeSelectorTerms) == 0 {
		return a
	}
	out := &corev1.NodeSelector{}
	for _, x := range a.NodeSelectorTerms {
		for _, y := range b.NodeSelectorTerms {
			out.NodeSelectorTerms = append(out.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(x.MatchExpressions, y.MatchExpressions),
				MatchFields:      slices.Concat(x.MatchFields, y.MatchFields),
			})
		}
	}
	return out
}
