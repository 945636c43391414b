package admission

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

// Rules are the objects of a cluster that admission reads, of all namespaces.
type Rules struct {
	// LimitRanges are in the order in which they apply.
	LimitRanges []*corev1.LimitRange
	// RuntimeClasses are those that pods may name.
	RuntimeClasses []*nodev1.RuntimeClass
	// PriorityClasses are those that pods may name, and the global default.
	PriorityClasses []*schedulingv1.PriorityClass
}

// Pod returns the spec of a pod of the namespace as it will be after admission. The error is the reason for which the API server will refuse it.
// spec itself stays as it is.
func (r *Rules) Pod(namespace string, spec *corev1.PodSpec) (corev1.PodSpec, error) {
	return r.admit(namespace, defaulted(namespace, spec))
}

// defaulted returns a copy of the spec with the API server's defaults: a pod gets requests for what its template only limits.
func defaulted(namespace string, spec *corev1.PodSpec) corev1.PodSpec {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: *spec.DeepCopy()}
	corev1defaults.SetObjectDefaults_Pod(&pod)
	return pod.Spec
}

// admit adds to a spec with the API server's defaults what the rules add.
func (r *Rules) admit(namespace string, defaulted corev1.PodSpec) (corev1.PodSpec, error) {
	spec, err := Limit(r.LimitRanges, namespace, defaulted)
	if err != nil {
		return corev1.PodSpec{}, err
	}
	class, found := PriorityClassOf(r.PriorityClasses, &spec)
	if !found {
		return corev1.PodSpec{}, fmt.Errorf("PriorityClass %s is missing", spec.PriorityClassName)
	}
	SetPriority(&spec, class)
	return spec, r.setRuntimeClass(&spec)
}

func (r *Rules) setRuntimeClass(s *corev1.PodSpec) error {
	if s.RuntimeClassName == nil {
		return nil
	}
	i := slices.IndexFunc(r.RuntimeClasses, func(c *nodev1.RuntimeClass) bool { return c.Name == *s.RuntimeClassName })
	if i < 0 {
		return fmt.Errorf("RuntimeClass %s is missing", *s.RuntimeClassName)
	}
	return SetRuntimeClass(s, r.RuntimeClasses[i])
}
