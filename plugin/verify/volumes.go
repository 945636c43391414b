package verify

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
)

// Volumes knows where the volumes of pods can be used.
type Volumes struct {
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
}

// NewVolumes reads from the informers, which may not have been started yet.
func NewVolumes(f informers.SharedInformerFactory) *Volumes {
	return &Volumes{
		claims:  f.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: f.Core().V1().PersistentVolumes().Lister(),
		classes: f.Storage().V1().StorageClasses().Lister(),
	}
}

// Place returns the pod with the places of its volumes as required node affinity, so that a plan puts it where they
// are; or why no node can be launched for it, if a volume says so. The pod given stays as it is.
func (v *Volumes) Place(pod *corev1.Pod) (_ *corev1.Pod, why string) {
	var groups []*corev1.NodeSelector
	for i := range pod.Spec.Volumes {
		name, ok := claimName(pod, &pod.Spec.Volumes[i])
		if !ok {
			continue
		}
		place, why := v.place(pod.Namespace, name)
		if why != "" {
			return pod, why
		}
		if place != nil {
			groups = append(groups, place)
		}
	}
	if len(groups) == 0 {
		return pod, ""
	}
	out := pod.DeepCopy()
	if out.Spec.Affinity == nil {
		out.Spec.Affinity = &corev1.Affinity{}
	}
	if out.Spec.Affinity.NodeAffinity == nil {
		out.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	a := out.Spec.Affinity.NodeAffinity
	for _, g := range groups {
		a.RequiredDuringSchedulingIgnoredDuringExecution = both(a.RequiredDuringSchedulingIgnoredDuringExecution, g)
	}
	return out, ""
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

// place is where the claim's volume can be used, nil for anywhere; why tells that it cannot be used at all now.
func (v *Volumes) place(namespace, name string) (place *corev1.NodeSelector, why string) {
	pvc, err := v.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil, fmt.Sprintf("persistentvolumeclaim %s/%s is not found", namespace, name)
	}
	if pvc.DeletionTimestamp != nil {
		return nil, fmt.Sprintf("persistentvolumeclaim %s/%s is being deleted", namespace, name)
	}
	if pvc.Spec.VolumeName != "" {
		pv, err := v.volumes.Get(pvc.Spec.VolumeName)
		if err != nil {
			return nil, fmt.Sprintf("persistentvolume %s of claim %s/%s is not found", pvc.Spec.VolumeName, namespace, name)
		}
		return volumePlace(pv), ""
	}
	className := volume.GetPersistentVolumeClaimClass(pvc)
	class, err := v.classes.Get(className)
	if err != nil {
		return nil, fmt.Sprintf("storageclass %q of persistentvolumeclaim %s/%s is not found", className, namespace, name)
	}
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return nil, fmt.Sprintf("persistentvolumeclaim %s/%s is not bound yet, which needs no node", namespace, name)
	}
	if class.Provisioner == volume.NotSupportedProvisioner {
		return v.matching(pvc, className)
	}
	return allowedTopologies(class), ""
}

// volumePlace is the volume's node affinity and, for those of old that carry labels, their zones and regions as the
// plugin VolumeZone reads them; nil for anywhere.
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
		// As VolumeZone reads the label of a volume that several zones have.
		values := strings.Split(value, "__")
		out = both(out, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}})
	}
	return out
}

// matching is where the volumes are that a claim without a provisioner could be bound to.
func (v *Volumes) matching(pvc *corev1.PersistentVolumeClaim, className string) (*corev1.NodeSelector, string) {
	all, err := v.volumes.List(labels.Everything())
	if err != nil {
		return nil, err.Error()
	}
	asked := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	out := &corev1.NodeSelector{}
	found := false
	for _, pv := range all {
		size := pv.Spec.Capacity[corev1.ResourceStorage]
		ref := pv.Spec.ClaimRef
		free := ref == nil || ref.Namespace == pvc.Namespace && ref.Name == pvc.Name && (ref.UID == "" || ref.UID == pvc.UID)
		if pv.Spec.StorageClassName != className || size.Cmp(asked) < 0 || !free || pv.DeletionTimestamp != nil {
			continue
		}
		found = true
		place := volumePlace(pv)
		if place == nil {
			return nil, ""
		}
		out.NodeSelectorTerms = append(out.NodeSelectorTerms, place.NodeSelectorTerms...)
	}
	if !found {
		return nil, fmt.Sprintf("persistentvolumeclaim %s/%s: no free persistentvolume of storageclass %s is large enough, and it provisions none", pvc.Namespace, pvc.Name, className)
	}
	slices.SortFunc(out.NodeSelectorTerms, func(a, b corev1.NodeSelectorTerm) int { return strings.Compare(a.String(), b.String()) })
	return out, ""
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

// both is met where a and b are: each term of the one with each of the other.
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
