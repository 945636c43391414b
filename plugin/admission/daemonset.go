package admission

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// templateGeneration is the label that the DaemonSet controller writes on its pods; its value is that of the DaemonSet's
// annotation appsv1.DeprecatedTemplateGeneration (k8s.io/kubernetes/pkg/controller/daemon/util).
const templateGeneration = "pod-template-generation"

// DaemonSet returns the DaemonSet with its template as pods made from it will be after admission. The error is the reason
// for which the API server will refuse them. live is a pod of the DaemonSet, which shows what webhooks add; nil for none. It
// must be Current.
//
// The DaemonSet controller decides on which nodes it creates pods by the tolerations of the template as written. So the
// tolerations of a RuntimeClass are left out. The node selector of a RuntimeClass is kept: a pod that it excludes from the
// node uses no resources there.
func (r *Rules) DaemonSet(ds *appsv1.DaemonSet, live *corev1.Pod) (*appsv1.DaemonSet, error) {
	made := defaulted(ds.Namespace, &ds.Spec.Template.Spec)
	spec, err := r.admit(ds.Namespace, made)
	if err != nil {
		return nil, err
	}
	spec.Tolerations = ds.Spec.Template.Spec.Tolerations
	if live != nil {
		overlay(&spec, &made, &live.Spec)
	}
	out := *ds
	out.Spec.Template.Spec = spec
	return &out, nil
}

// Current reports whether the pod was made from the current template of the DaemonSet and is not ending.
func Current(ds *appsv1.DaemonSet, pod *corev1.Pod) bool {
	generation, known := ds.Annotations[appsv1.DeprecatedTemplateGeneration]
	return known && ds.UID != "" && pod.Labels[templateGeneration] == generation && metav1.IsControlledBy(pod, ds) &&
		pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// overlay writes into the spec what a live pod requests. Where the template states a request, that of the live pod replaces
// it, since a webhook has changed it. Of other requests the greater is used, since a LimitRange may have changed since the
// pod was made. Containers that the template lacks are added.
func overlay(s, template, live *corev1.PodSpec) {
	s.Containers = overlayContainers(s.Containers, template.Containers, live.Containers)
	s.InitContainers = overlayContainers(s.InitContainers, template.InitContainers, live.InitContainers)
	if live.Resources != nil {
		s.Resources = live.Resources
	}
}

func overlayContainers(spec, template, live []corev1.Container) []corev1.Container {
	out := slices.Clone(spec)
	for _, c := range live {
		i := slices.IndexFunc(out, func(o corev1.Container) bool { return o.Name == c.Name })
		if i < 0 {
			out = append(out, c)
			continue
		}
		stated := corev1.ResourceList{}
		if t := slices.IndexFunc(template, func(o corev1.Container) bool { return o.Name == c.Name }); t >= 0 {
			stated = template[t].Resources.Requests
		}
		requests := out[i].Resources.Requests.DeepCopy()
		for name, q := range c.Resources.Requests {
			_, webhook := stated[name]
			if have := requests[name]; webhook || have.Cmp(q) < 0 {
				if requests == nil {
					requests = corev1.ResourceList{}
				}
				requests[name] = q
			}
		}
		out[i].Resources.Requests = requests
	}
	return out
}
