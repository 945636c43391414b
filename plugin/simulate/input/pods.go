package input

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	defaults "k8s.io/kubernetes/pkg/apis/core/v1"
)

// sharedSpec is the spec of all pods that were written with the same text, with defaults.
type sharedSpec struct {
	id     int
	spec   corev1.PodSpec
	faults []Problem // with field and message
	// unknown are fields that a pod does not have, until they are reported.
	unknown []string
}

// sharedMeta is the metadata of pods that differ in their name, UID and creation alone.
type sharedMeta struct {
	id   int
	meta metav1.ObjectMeta
}

// pod reads a pod part by part. A pod that cannot be read like this is read as a whole, which finds the reason.
func (r *Reader) pod(place string, doc []byte, ps parts) error {
	if r.podOf(ps) == nil {
		return nil
	}
	asJSON, err := toJSON(doc, ps)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	whole := &corev1.Pod{}
	if readable := json.Unmarshal(asJSON, whole) == nil; !readable {
		r.unreadable(place, asJSON, func() runtime.Object { return &corev1.Pod{} }, "Pod")
		return nil
	}
	r.addPod(whole)
	return nil
}

func (r *Reader) podOf(ps parts) error {
	out := &corev1.Pod{}
	metaID, err := r.meta(ps, &out.ObjectMeta)
	if err != nil {
		return err
	}
	spec, err := r.spec(ps)
	if err != nil {
		return err
	}
	if p, ok := ps.get("status"); ok {
		if err := p.into(&out.Status); err != nil {
			return err
		}
	}
	out.Spec = spec.spec
	r.keep(out, spec, metaID)
	return nil
}

// meta reads the metadata, and shares what other pods have too.
func (r *Reader) meta(ps parts, out *metav1.ObjectMeta) (int, error) {
	p, ok := ps.get("metadata")
	if !ok {
		return 0, errors.New("metadata is missing")
	}
	own, ok := p.within()
	if !ok {
		if err := p.into(out); err != nil {
			return 0, err
		}
		out.ManagedFields = nil
		// Metadata that cannot be divided is shared with no other pod.
		m := &sharedMeta{id: len(r.metas) + 1}
		r.metas[fmt.Sprintf("alone %d", m.id)] = m
		return m.id, nil
	}
	var key strings.Builder
	var rest parts
	var name, uid, generateName string
	var created metav1.Time
	for _, f := range own {
		switch f.key {
		case "name":
			name = f.scalar()
		case "uid":
			uid = f.scalar()
		case "generateName":
			generateName = f.scalar()
		case "creationTimestamp":
			if err := f.into(&created); err != nil {
				return 0, err
			}
		case "managedFields", "resourceVersion", "selfLink", "generation":
		default:
			fmt.Fprintf(&key, "%s %t %s\n", f.key, f.yaml, f.text)
			rest = append(rest, f)
		}
	}
	m, ok := r.metas[key.String()]
	if !ok {
		m = &sharedMeta{id: len(r.metas) + 1}
		for _, f := range rest {
			if err := setMeta(&m.meta, f); err != nil {
				return 0, err
			}
		}
		r.metas[key.String()] = m
	}
	*out = m.meta
	out.Name, out.UID, out.GenerateName, out.CreationTimestamp = name, types.UID(uid), generateName, created
	return m.id, nil
}

// setMeta reads the fields of metadata that matter to a simulation.
func setMeta(out *metav1.ObjectMeta, f part) error {
	switch f.key {
	case "namespace":
		return f.into(&out.Namespace)
	case "labels":
		return f.into(&out.Labels)
	case "annotations":
		return f.into(&out.Annotations)
	case "ownerReferences":
		return f.into(&out.OwnerReferences)
	case "deletionTimestamp":
		return f.into(&out.DeletionTimestamp)
	case "deletionGracePeriodSeconds":
		return f.into(&out.DeletionGracePeriodSeconds)
	}
	return nil
}

// spec reads the spec, or returns the one with the same text.
func (r *Reader) spec(ps parts) (*sharedSpec, error) {
	p, ok := ps.get("spec")
	if !ok {
		return nil, errors.New("spec is missing")
	}
	if have, ok := r.specs[string(p.text)]; ok {
		return have, nil
	}
	s := &sharedSpec{id: len(r.specs) + 1}
	unknown, err := p.strictly(&s.spec)
	if err != nil {
		return nil, err
	}
	r.specs[string(p.text)] = s
	r.prepare(s)
	for _, field := range unknown {
		s.unknown = append(s.unknown, "spec."+field)
	}
	return s, nil
}

// prepare sets what the API server would, and looks for what it would refuse.
func (r *Reader) prepare(s *sharedSpec) {
	s.faults = faultsOf(&s.spec)
	pod := corev1.Pod{Spec: s.spec}
	defaults.SetObjectDefaults_Pod(&pod)
	s.spec = pod.Spec
}

// addPod adds a pod that was not read from a text.
func (r *Reader) addPod(pod *corev1.Pod) {
	s := &sharedSpec{id: len(r.specs) + 1, spec: pod.Spec}
	r.specs[fmt.Sprintf("alone %d", s.id)] = s
	r.prepare(s)
	out := *pod
	out.Spec, out.ManagedFields = s.spec, nil
	m := &sharedMeta{id: len(r.metas) + 1}
	r.metas[fmt.Sprintf("alone %d", m.id)] = m
	r.keep(&out, s, m.id)
}

// keep adds the pod, unless it has a fault.
func (r *Reader) keep(pod *corev1.Pod, s *sharedSpec, metaID int) {
	pod.Namespace = cmp.Or(pod.Namespace, metav1.NamespaceDefault)
	if pod.Name == "" && pod.GenerateName != "" {
		// The API server does this too, with random names.
		pod.Name = fmt.Sprintf("%s%d", pod.GenerateName, r.generate[pod.GenerateName])
		r.generate[pod.GenerateName]++
	}
	unseen := pod.UID == ""
	if unseen {
		pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	}
	// Pods of one spec may be thousands: the first one has the message.
	r.unknownFields(nameOf("Pod", pod), s.unknown)
	s.unknown = nil
	for _, f := range s.faults {
		r.problems = append(r.problems, Problem{Object: nameOf("Pod", pod), Field: f.Field, Message: f.Message, Refused: true})
	}
	if len(s.faults) > 0 {
		r.invalid = append(r.invalid, Invalid{pod.Namespace, pod.Name, s.faults[0].Field + ": " + s.faults[0].Message})
		return
	}
	r.pods.add(r, "Pod", Pod{Pod: pod, Shape: r.shape(s.id, metaID), unseen: unseen})
}

// shape numbers the pairs of spec and metadata.
func (r *Reader) shape(spec, meta int) int {
	key := [2]int{spec, meta}
	n, ok := r.shapes[key]
	if !ok {
		n = len(r.shapes)
		r.shapes[key] = n
	}
	return n
}
