package input

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/slipway-k8s/slipway/plugin/admission"
	"github.com/slipway-k8s/slipway/plugin/simulate/bufferpods"
)

// limited is the spec of a shape of pods after the LimitRanges.
type limited struct {
	spec corev1.PodSpec
	err  error
}

// limit does what LimitRanger does, to pods that no API server has admitted: it sets the defaults of the namespace's LimitRanges,
// and refuses pods that exceed their bounds.
func (r *Reader) limit(pods []Pod) []Pod {
	if len(r.limitRanges.items) == 0 {
		return pods
	}
	known := map[int]limited{}
	return slices.DeleteFunc(pods, func(p Pod) bool {
		if !p.unseen || p.Spec.NodeName != "" {
			return false
		}
		l, ok := known[p.Shape]
		if !ok {
			l = r.admitted(p.Namespace, p.Spec)
			known[p.Shape] = l
			if l.err != nil {
				r.problem(nameOf("Pod", p), "spec.containers", "%v", l.err)
			}
		}
		if l.err != nil {
			r.invalid = append(r.invalid, Invalid{p.Namespace, p.Name, l.err.Error()})
			return true
		}
		volumes := p.Spec.Volumes // A StatefulSet's pod has its own.
		p.Spec = l.spec
		p.Spec.Volumes = volumes
		return false
	})
}

// admitted returns the spec with the defaults of the namespace's LimitRanges. The error names the bound that it exceeds.
func (r *Reader) admitted(namespace string, spec corev1.PodSpec) limited {
	out, err := admission.Limit(r.limitRanges.items, namespace, spec)
	return limited{out, err}
}

// defaultLimitRanges sets what the API server would, and sorts the LimitRanges by name.
func defaultLimitRanges(ranges []*corev1.LimitRange) {
	for _, l := range ranges {
		defaults.SetObjectDefaults_LimitRange(l)
	}
	slices.SortStableFunc(ranges, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
}

// bufferPods returns the pods of the CapacityBuffers, which exist nowhere.
func bufferPods(r *Reader, onNodes []*corev1.Pod) []Pod {
	made := bufferpods.Make(bufferpods.Input{
		Buffers: r.buffers.items, Now: time.Now(), OnNodes: onNodes,
		Template: func(namespace, kind, name string) (bufferpods.Template, bool) {
			return templateOf(r, namespace, kind, name)
		},
		Admit: func(namespace string, spec *corev1.PodSpec) (corev1.PodSpec, error) {
			return admitTemplate(r, namespace, spec)
		},
	})
	for _, cb := range made.Unread {
		r.notes = append(r.notes, nameOf("CapacityBuffer", cb)+": left out, since the cluster keeps no room for any: the launcher's feature gate CapacityBuffer is off")
	}
	for _, p := range made.Problems {
		r.problem(nameOf("CapacityBuffer", p.Buffer), p.Field, "%s", p.Message)
	}
	var out []Pod
	for i, pods := range slices.Concat(made.Pods, made.Booked) {
		alone := &sharedSpec{id: len(r.specs) + 1}
		r.specs[fmt.Sprintf("alone %d", alone.id)] = alone
		shape := r.shape(alone.id, 0)
		for _, pod := range pods {
			out = append(out, Pod{Pod: pod, Shape: shape, Booked: i >= len(made.Pods)})
		}
	}
	return out
}

// podsOnNodes returns the pods on nodes, finished ones included.
func podsOnNodes(pods []Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			out = append(out, p.Pod)
		}
	}
	return out
}

// templateOf returns the pod template of an object.
func templateOf(r *Reader, namespace, kind, name string) (t bufferpods.Template, ok bool) {
	switch kind {
	case "PodTemplate":
		if o, found := r.podTemplates.get(namespace, name); found {
			return bufferpods.Template{Pod: o.Template, Selector: &metav1.LabelSelector{MatchLabels: o.Template.Labels}}, true
		}
	case "Deployment":
		if o, found := r.deployments.get(namespace, name); found {
			return bufferpods.Template{Pod: o.Spec.Template, Replicas: o.Spec.Replicas, Selector: o.Spec.Selector}, true
		}
	case "StatefulSet":
		if o, found := r.statefulSets.get(namespace, name); found {
			return bufferpods.Template{Pod: o.Spec.Template, Replicas: o.Spec.Replicas, Selector: o.Spec.Selector}, true
		}
	case "ReplicaSet":
		if o, found := r.replicaSets.get(namespace, name); found {
			return bufferpods.Template{Pod: o.Spec.Template, Replicas: o.Spec.Replicas, Selector: o.Spec.Selector}, true
		}
	}
	return t, false
}

// admitTemplate returns the spec of a pod of the template as the API server would admit it, whatever its priority. Classes that are not in the
// input exist in the cluster.
func admitTemplate(r *Reader, namespace string, template *corev1.PodSpec) (corev1.PodSpec, error) {
	s := sharedSpec{spec: *template.DeepCopy()}
	if r.prepare(&s); len(s.faults) > 0 {
		return s.spec, fmt.Errorf("%s: %s", s.faults[0].Field, s.faults[0].Message)
	}
	l := r.admitted(namespace, s.spec)
	if name := l.spec.RuntimeClassName; l.err == nil && name != nil {
		if class, found := r.runtimeClasses.get("", *name); found {
			l.err = admission.SetRuntimeClass(&l.spec, class)
		}
	}
	return l.spec, l.err
}
