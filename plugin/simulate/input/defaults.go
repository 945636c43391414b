package input

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/slipway-k8s/slipway/plugin/admission"
)

// defaultNodes sets what the API server would set: allocatable is capacity if only that is given.
func (r *Reader) defaultNodes() {
	for _, n := range r.nodes.items {
		defaults.SetObjectDefaults_Node(n)
		n.Status.Images, n.ManagedFields = nil, nil
		for name, q := range n.Status.Allocatable {
			if q.Sign() < 0 {
				r.problem(nameOf("Node", n), "status.allocatable["+string(name)+"]", "%s is negative: must be zero or more", q.String())
				delete(n.Status.Allocatable, name)
			}
		}
	}
}

// admit does to pods what the API server's admission does: it sets priority and preemption policy of the PriorityClass, and
// overhead, node selector and tolerations of the RuntimeClass.
func (r *Reader) admit(pods []Pod) {
	for _, p := range pods {
		r.admitSpec(nameOf("Pod", p), &p.Spec)
	}
}

func (r *Reader) admitSpec(object string, s *corev1.PodSpec) {
	admission.SetPriority(s, r.priorityClass(object, s))
	if s.RuntimeClassName == nil {
		return
	}
	if class, ok := r.runtimeClasses.get("", *s.RuntimeClassName); ok {
		if err := admission.SetRuntimeClass(s, class); err != nil {
			r.problem(object, "spec.runtimeClassName", "%v: the RuntimeClass is ignored", err)
		}
	}
}

// priorityClass returns the pod's PriorityClass; nil for none, and for one that is not in the input.
func (r *Reader) priorityClass(object string, s *corev1.PodSpec) *schedulingv1.PriorityClass {
	if s.Priority != nil {
		return nil
	}
	class, found := admission.PriorityClassOf(r.priorityClasses.items, s)
	if !found {
		r.problem(object, "spec.priorityClassName", "PriorityClass %s is not in the input: the pod is planned with priority 0", s.PriorityClassName)
	}
	return class
}

// finishedDaemonSets returns the DaemonSets whose pods the API server would accept, with their templates as those pods will be.
func (r *Reader) finishedDaemonSets() []*appsv1.DaemonSet {
	rules := admission.Rules{LimitRanges: r.limitRanges.items, RuntimeClasses: r.runtimeClasses.items, PriorityClasses: r.priorityClasses.items}
	var out []*appsv1.DaemonSet
	for _, ds := range r.daemonSets.items {
		object := nameOf("DaemonSet", ds)
		s := sharedSpec{spec: ds.Spec.Template.Spec}
		r.prepare(&s)
		for _, f := range s.faults {
			r.refuse(object, "spec.template."+f.Field, "%s", f.Message)
		}
		if len(s.faults) > 0 {
			continue
		}
		ds.Spec.Template.Spec = s.spec
		r.withoutMissing(object, &ds.Spec.Template.Spec)
		admitted, err := rules.DaemonSet(ds, livePod(r.pods.items, ds))
		if err != nil {
			r.problem(object, "spec.template.spec", "%v", err)
			continue
		}
		out = append(out, admitted)
	}
	return out
}

// withoutMissing removes the names of classes that are not in the input: they exist in the cluster.
func (r *Reader) withoutMissing(object string, s *corev1.PodSpec) {
	if class := r.priorityClass(object, s); class == nil && s.PriorityClassName != "" {
		s.PriorityClassName = ""
		admission.SetPriority(s, nil)
	}
	if s.RuntimeClassName != nil {
		if _, ok := r.runtimeClasses.get("", *s.RuntimeClassName); !ok {
			s.RuntimeClassName = nil
		}
	}
}

// livePod returns the newest pod of the input that was made from the DaemonSet's template; nil for none.
func livePod(pods []Pod, ds *appsv1.DaemonSet) *corev1.Pod {
	var newest *corev1.Pod
	for _, p := range pods {
		if p.Namespace == ds.Namespace && admission.Current(ds, p.Pod) && (newest == nil || newest.CreationTimestamp.Before(&p.CreationTimestamp)) {
			newest = p.Pod
		}
	}
	return newest
}

// defaultClassAnnotation marks the StorageClass of claims that name none.
const defaultClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// defaultVolumeClaims gives claims that name no StorageClass the default one.
func (r *Reader) defaultVolumeClaims() {
	fallback := ""
	for _, class := range r.storageClasses.items {
		if class.VolumeBindingMode == nil {
			class.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
		}
		if class.Annotations[defaultClassAnnotation] == "true" {
			fallback = class.Name
		}
	}
	for _, c := range r.claims.items {
		defaults.SetObjectDefaults_PersistentVolumeClaim(c)
		if c.Spec.StorageClassName == nil && c.Spec.VolumeName == "" && fallback != "" {
			c.Spec.StorageClassName = new(fallback)
		}
	}
	for _, v := range r.volumes.items {
		defaults.SetObjectDefaults_PersistentVolume(v)
	}
}
