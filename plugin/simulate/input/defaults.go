package input

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

// defaultNodes fills in what the API server would: allocatable is capacity where only that is given.
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

// admit does to pods what the API server's admission does: priority and preemption policy of the PriorityClass,
// overhead, node selector and tolerations of the RuntimeClass.
func (r *Reader) admit(pods []Pod) {
	for _, p := range pods {
		r.admitSpec(nameOf("Pod", p), &p.Spec)
	}
}

func (r *Reader) admitSpec(object string, s *corev1.PodSpec) {
	if s.Priority == nil {
		s.Priority = new(r.priority(object, s))
	}
	if s.RuntimeClassName == nil {
		return
	}
	class, ok := r.runtimeClasses.get("", *s.RuntimeClassName)
	if !ok {
		return
	}
	if class.Overhead != nil && len(s.Overhead) == 0 {
		s.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling != nil {
		selector := maps.Clone(class.Scheduling.NodeSelector)
		if selector == nil {
			selector = map[string]string{}
		}
		maps.Copy(selector, s.NodeSelector)
		s.NodeSelector = selector
		s.Tolerations = slices.Concat(s.Tolerations, class.Scheduling.Tolerations)
	}
}

// The priorities of the classes that every cluster has.
const (
	systemClusterCritical = 2_000_000_000
	systemNodeCritical    = 2_000_001_000
)

func (r *Reader) priority(object string, s *corev1.PodSpec) int32 {
	name := s.PriorityClassName
	if name == "" {
		for _, class := range r.priorityClasses.items {
			if class.GlobalDefault {
				name = class.Name
			}
		}
	}
	class, ok := r.priorityClasses.get("", name)
	switch {
	case ok:
		if s.PreemptionPolicy == nil || *s.PreemptionPolicy == corev1.PreemptLowerPriority {
			s.PreemptionPolicy = class.PreemptionPolicy
		}
		return class.Value
	case name == "system-cluster-critical":
		return systemClusterCritical
	case name == "system-node-critical":
		return systemNodeCritical
	case name != "":
		r.problem(object, "spec.priorityClassName", "PriorityClass %s is not in the input: the pod is planned with priority 0", name)
	}
	return 0
}

// finishedDaemonSets are those whose pods the API server would take, with its defaults.
func (r *Reader) finishedDaemonSets() []*appsv1.DaemonSet {
	return slices.DeleteFunc(r.daemonSets.items, func(ds *appsv1.DaemonSet) bool {
		s := sharedSpec{spec: ds.Spec.Template.Spec}
		r.prepare(&s)
		for _, f := range s.faults {
			r.problem(nameOf("DaemonSet", ds), "spec.template."+f.Field, "%s", f.Message)
		}
		ds.Spec.Template.Spec = s.spec
		if l := r.admitted(ds.Namespace, s.spec); l.err != nil {
			r.problem(nameOf("DaemonSet", ds), "spec.template.spec.containers", "%v", l.err)
			return true
		} else if len(r.limitRanges.items) > 0 {
			ds.Spec.Template.Spec = l.spec
		}
		r.admitSpec(nameOf("DaemonSet", ds), &ds.Spec.Template.Spec)
		return len(s.faults) > 0
	})
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
