package input

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	strict "k8s.io/apimachinery/pkg/util/json"
)

// faultsOf returns the faults in a pod that an API server would refuse and a planner cannot handle. Faults that do not concern
// scheduling, such as a missing image, are not looked for.
func faultsOf(s *corev1.PodSpec) []Problem {
	f := &faults{}
	if len(s.Containers) == 0 {
		f.say("spec.containers", "a pod needs a container")
	}
	for i := range s.InitContainers {
		f.resources(fmt.Sprintf("spec.initContainers[%d].resources", i), &s.InitContainers[i].Resources)
	}
	for i := range s.Containers {
		f.resources(fmt.Sprintf("spec.containers[%d].resources", i), &s.Containers[i].Resources)
	}
	if s.Resources != nil {
		f.resources("spec.resources", s.Resources)
	}
	f.amounts("spec.overhead", s.Overhead)
	for i, c := range s.TopologySpreadConstraints {
		f.spread(fmt.Sprintf("spec.topologySpreadConstraints[%d]", i), c)
	}
	for i, t := range s.Tolerations {
		f.toleration(fmt.Sprintf("spec.tolerations[%d]", i), t)
	}
	if a := s.Affinity; a != nil {
		f.nodeAffinity(a.NodeAffinity)
		if a.PodAffinity != nil {
			f.terms("spec.affinity.podAffinity", a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a.PodAntiAffinity != nil {
			f.terms("spec.affinity.podAntiAffinity", a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	return f.list
}

type faults struct{ list []Problem }

func (f *faults) say(field, format string, args ...any) {
	f.list = append(f.list, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

func (f *faults) resources(path string, r *corev1.ResourceRequirements) {
	f.amounts(path+".requests", r.Requests)
	f.amounts(path+".limits", r.Limits)
	for _, name := range sortedNames(r.Requests) {
		request := r.Requests[name]
		if limit, ok := r.Limits[name]; ok && request.Cmp(limit) > 0 && limit.Sign() >= 0 {
			f.say(fmt.Sprintf("%s.requests[%s]", path, name), "%s is more than the limit of %s", request.String(), limit.String())
		}
	}
}

func (f *faults) amounts(path string, list corev1.ResourceList) {
	for _, name := range sortedNames(list) {
		if q := list[name]; q.Sign() < 0 {
			f.say(fmt.Sprintf("%s[%s]", path, name), "%s is negative: must be zero or more", q.String())
		}
	}
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (f *faults) spread(path string, c corev1.TopologySpreadConstraint) {
	if c.MaxSkew < 1 {
		f.say(path+".maxSkew", "%d: must be greater than zero", c.MaxSkew)
	}
	if c.TopologyKey == "" {
		f.say(path+".topologyKey", "is required")
	}
	if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
		f.say(path+".whenUnsatisfiable", "%q: must be DoNotSchedule or ScheduleAnyway", c.WhenUnsatisfiable)
	}
	if c.MinDomains != nil && *c.MinDomains < 1 {
		f.say(path+".minDomains", "%d: must be greater than zero", *c.MinDomains)
	}
	f.selector(path+".labelSelector", c.LabelSelector)
}

func (f *faults) toleration(path string, t corev1.Toleration) {
	switch t.Operator {
	case "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt:
	default:
		f.say(path+".operator", "%q: must be Exists or Equal", t.Operator)
	}
	if t.Key == "" && t.Operator != corev1.TolerationOpExists {
		f.say(path+".operator", "must be Exists where key is empty")
	}
}

func (f *faults) nodeAffinity(a *corev1.NodeAffinity) {
	if a == nil {
		return
	}
	const path = "spec.affinity.nodeAffinity"
	if req := a.RequiredDuringSchedulingIgnoredDuringExecution; req != nil {
		for i, t := range req.NodeSelectorTerms {
			f.expressions(fmt.Sprintf("%s.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d].matchExpressions", path, i), t.MatchExpressions)
		}
	}
	for i, t := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		f.expressions(fmt.Sprintf("%s.preferredDuringSchedulingIgnoredDuringExecution[%d].preference.matchExpressions", path, i), t.Preference.MatchExpressions)
	}
}

func (f *faults) expressions(path string, list []corev1.NodeSelectorRequirement) {
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch e.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(e.Values) == 0 {
				f.say(at+".values", "operator %s needs a value", e.Operator)
			}
		case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
			if len(e.Values) > 0 {
				f.say(at+".values", "operator %s takes no values", e.Operator)
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			if len(e.Values) != 1 {
				f.say(at+".values", "operator %s takes exactly one value, got %d", e.Operator, len(e.Values))
			}
		default:
			f.say(at+".operator", "%q: must be In, NotIn, Exists, DoesNotExist, Gt or Lt", e.Operator)
		}
	}
}

func (f *faults) terms(path string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i, t := range required {
		f.term(fmt.Sprintf("%s.requiredDuringSchedulingIgnoredDuringExecution[%d]", path, i), t)
	}
	for i, t := range preferred {
		f.term(fmt.Sprintf("%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm", path, i), t.PodAffinityTerm)
	}
}

func (f *faults) term(path string, t corev1.PodAffinityTerm) {
	if t.TopologyKey == "" {
		f.say(path+".topologyKey", "is required")
	}
	f.selector(path+".labelSelector", t.LabelSelector)
	f.selector(path+".namespaceSelector", t.NamespaceSelector)
}

func (f *faults) selector(path string, s *metav1.LabelSelector) {
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		f.say(path, "%v", err)
	}
}

// unreadable reports the fields that keep an object from being read.
func (r *Reader) unreadable(place string, text []byte, empty func() runtime.Object, kind string) {
	var head struct {
		Metadata struct{ Namespace, Name string }
	}
	name := place
	known := json.Unmarshal(text, &head) == nil && head.Metadata.Name != ""
	if known {
		if head.Metadata.Namespace == "" && isNamespaced(kind) {
			head.Metadata.Namespace = metav1.NamespaceDefault
		}
		name = nameOf(kind, &metav1.ObjectMeta{Namespace: head.Metadata.Namespace, Name: head.Metadata.Name})
	}
	before := len(r.problems)
	r.locate(name, text, empty)
	if known && kind == "Pod" && len(r.problems) > before {
		found := r.problems[before]
		r.invalid = append(r.invalid, Invalid{head.Metadata.Namespace, head.Metadata.Name, found.Field + ": " + found.Message})
	}
}

// locate reports the fields of an object that cannot be read.
func (r *Reader) locate(name string, text []byte, empty func() runtime.Object) {
	var whole any
	if err := strict.Unmarshal(text, &whole); err != nil {
		r.refuse(name, "", "%v", err)
		return
	}
	try := func(value any) error {
		asJSON, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return strict.Unmarshal(asJSON, empty())
	}
	locate(whole, "", func(v any) any { return v }, try, func(field string, err error) {
		r.refuse(name, field, "%v", err)
	})
}

func isNamespaced(kind string) bool {
	switch kind {
	case "NodePool", "NodeOverlay", "NodeClaim", "EC2NodeClass", "Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "PriorityClass", "RuntimeClass":
		return false
	}
	return true
}

// locate finds the innermost values that cannot be read. wrap returns an object that has only the given value, at its place.
func locate(value any, path string, wrap func(any) any, try func(any) error, report func(string, error)) {
	err := try(wrap(value))
	if err == nil {
		return
	}
	deeper := false
	note := func(field string, err error) {
		deeper = true
		report(field, err)
	}
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			at := key
			if path != "" {
				at = path + "." + key
			}
			locate(v[key], at, func(x any) any { return wrap(map[string]any{key: x}) }, try, note)
		}
	case []any:
		for i := range v {
			locate(v[i], fmt.Sprintf("%s[%d]", path, i), func(x any) any { return wrap([]any{x}) }, try, note)
		}
	}
	if !deeper {
		report(path, err)
	}
}
