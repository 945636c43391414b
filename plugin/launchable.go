package plugin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

// pinned says why no new node can take the pod, by its spec alone; empty if one might. A DaemonSet's pod belongs to a
// node that exists.
func (p *Plugin) pinned(pod *corev1.Pod) string {
	if ownedByDaemonSet(pod) {
		return "a DaemonSet's pod runs on the node it was made for"
	}
	if name, ok := nodeByName(pod); ok {
		return "the pod is pinned to node " + name
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "pods with resourceClaims run on existing nodes only, so far"
	}
	return ""
}

// nodeByName returns the node's name that each of the pod's required node selector terms asks for.
func nodeByName(pod *corev1.Pod) (string, bool) {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", false
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	name := ""
	for _, t := range terms {
		i := slices.IndexFunc(t.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == "metadata.name" && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0
		})
		if i < 0 {
			return "", false
		}
		name = t.MatchFields[i].Values[0]
	}
	return name, name != ""
}

// withVolumes returns the pod with the places of its volumes as required node affinity, so that the plan puts it where
// they are, and why it is not launchable if a volume says so. The pod given stays as it is.
func (p *Plugin) withVolumes(pod *corev1.Pod) (_ *corev1.Pod, why string) {
	var groups []*corev1.NodeSelector
	for i := range pod.Spec.Volumes {
		name, ok := claimName(pod, &pod.Spec.Volumes[i])
		if !ok {
			continue
		}
		place, why := p.volumePlace(pod.Namespace, name)
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

// volumePlace is where the claim's volume can be used, nil for anywhere; why tells that it cannot be used at all now.
func (p *Plugin) volumePlace(namespace, name string) (place *corev1.NodeSelector, why string) {
	pvc, err := p.informer.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil, fmt.Sprintf("persistentvolumeclaim %s/%s is not found", namespace, name)
	}
	if pvc.DeletionTimestamp != nil {
		return nil, fmt.Sprintf("persistentvolumeclaim %s/%s is being deleted", namespace, name)
	}
	if pvc.Spec.VolumeName != "" {
		pv, err := p.informer.Core().V1().PersistentVolumes().Lister().Get(pvc.Spec.VolumeName)
		if err != nil {
			return nil, fmt.Sprintf("persistentvolume %s of claim %s/%s is not found", pvc.Spec.VolumeName, namespace, name)
		}
		if pv.Spec.NodeAffinity == nil {
			return nil, ""
		}
		return pv.Spec.NodeAffinity.Required, ""
	}
	className := volume.GetPersistentVolumeClaimClass(pvc)
	class, err := p.informer.Storage().V1().StorageClasses().Lister().Get(className)
	if err != nil {
		return nil, fmt.Sprintf("storageclass %q of persistentvolumeclaim %s/%s is not found", className, namespace, name)
	}
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return nil, fmt.Sprintf("persistentvolumeclaim %s/%s is not bound yet, which needs no node", namespace, name)
	}
	return allowedTopologies(class), ""
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
