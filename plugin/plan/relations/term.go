package relations

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Term says which pods a constraint counts, per value of a node label: those that its selector matches in its namespaces.
type Term struct {
	key      string
	selector labels.Selector
	inNS     scope
	// also are terms that must match as well.
	also []Term
}

// Key returns the label whose values are the domains, as catalog.NormalKey.
func (t *Term) Key() string { return t.key }

// Selector returns the selector of the pods' labels, matchLabelKeys and mismatchLabelKeys included.
func (t *Term) Selector() labels.Selector { return t.selector }

// Matches reports whether the term counts the pod.
func (t *Term) Matches(pod *corev1.Pod) bool {
	if !t.inNS.has(pod.Namespace) || !t.selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	for i := range t.also {
		if o := &t.also[i]; !o.inNS.has(pod.Namespace) || !o.selector.Matches(labels.Set(pod.Labels)) {
			return false
		}
	}
	return true
}

// members is equal for terms that match the same pods.
func (t *Term) members() string {
	var b strings.Builder
	put := func(t *Term) {
		b.WriteString(strconv.Quote(t.inNS.key))
		b.WriteString(strconv.Quote(t.selector.String()))
		// One that matches no pod is written as one that matches all is.
		if _, selectable := t.selector.Requirements(); !selectable {
			b.WriteByte('0')
		}
	}
	put(t)
	for i := range t.also {
		put(&t.also[i])
	}
	return b.String()
}

// scope is the namespaces of a term. Equal keys mean equal namespaces.
type scope struct {
	key string
	has func(namespace string) bool
}

// only is one namespace.
func only(namespace string) scope {
	return scope{"=" + namespace, func(ns string) bool { return ns == namespace }}
}

// noNamespace is the scope of a term that matches no pod.
func noNamespace() scope { return scope{"0", func(string) bool { return false }} }

// SpreadTerm returns the term of a topology spread constraint, narrowed to the pod's values of matchLabelKeys (KEP-3243).
func SpreadTerm(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) (Term, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return Term{}, fmt.Errorf("reading the topology spread over %s: %w", c.TopologyKey, err)
	}
	selector = matchKeys(selector, pod, selection.In, c.MatchLabelKeys)
	return Term{key: catalog.NormalKey(c.TopologyKey), selector: selector, inNS: only(pod.Namespace)}, nil
}

// matchKeys adds the pod's own values of the label keys to the selector; a key that the pod lacks does not count.
func matchKeys(s labels.Selector, pod *corev1.Pod, op selection.Operator, keys []string) labels.Selector {
	for _, k := range keys {
		v, ok := pod.Labels[k]
		if !ok {
			continue
		}
		if r, err := labels.NewRequirement(k, op, []string{v}); err == nil {
			s = s.Add(*r)
		}
	}
	return s
}

// affinityTerm returns the term of the pod's affinity or anti-affinity, with matchLabelKeys and mismatchLabelKeys (KEP-3633).
func (in *Input) affinityTerm(pod *corev1.Pod, t *corev1.PodAffinityTerm, careful bool) (Term, error) {
	selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		return Term{}, fmt.Errorf("reading the pod affinity by %s: %w", t.TopologyKey, err)
	}
	selector = matchKeys(selector, pod, selection.In, t.MatchLabelKeys)
	selector = matchKeys(selector, pod, selection.NotIn, t.MismatchLabelKeys)
	return Term{key: catalog.NormalKey(t.TopologyKey), selector: selector, inNS: in.namespacesOf(t, pod.Namespace, careful)}, nil
}

// namespacesOf returns the namespaces of a term: those listed and those whose labels the selector matches; the pod's own
// where it has neither. Where labels of namespaces are not known, a selector that is not empty is read as all namespaces
// if that is the careful reading, as none otherwise.
func (in *Input) namespacesOf(t *corev1.PodAffinityTerm, own string, careful bool) scope {
	listed := strings.Join(t.Namespaces, ",")
	if t.NamespaceSelector == nil {
		if len(t.Namespaces) == 0 {
			return only(own)
		}
		return scope{"in " + listed, func(ns string) bool { return slices.Contains(t.Namespaces, ns) }}
	}
	if len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0 {
		return scope{"all", func(string) bool { return true }}
	}
	selector, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
	if in.Namespaces == nil || err != nil {
		return scope{fmt.Sprintf("unknown or %s, %t", listed, careful), func(ns string) bool { return careful || slices.Contains(t.Namespaces, ns) }}
	}
	return scope{selector.String() + " or " + listed, func(ns string) bool {
		return slices.Contains(t.Namespaces, ns) || selector.Matches(labels.Set(in.Namespaces[ns]))
	}}
}
