package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// ruleKind tells the three kinds of rules between pods apart.
type ruleKind int

const (
	spread ruleKind = iota + 1
	affinity
	antiAffinity
	// attended is affinity to pods that a DaemonSet brings to every new node of the class: only nodes that exist may lack
	// them.
	attended
)

// rule is one required constraint between pods: of the owner class, about its members, per value of the key.
type rule struct {
	kind     ruleKind
	key      string
	owner    int
	selector labels.Selector
	inNS     scope
	// also are rules that must match as well.
	also []rule
	// The pods that it speaks of.
	matched
	// maxSkew and minDomains are of a spread.
	maxSkew, minDomains int
	// soft is a spread that is a preference: only domains that its own pods can be launched into count.
	soft   bool
	policy corev1.TopologySpreadConstraint
	// The matching pods, and the owner's by domain.
	*tally
	owners map[string]int
	// domains of a spread: values of nodes that exist or that could be launched.
	domains map[string]bool
	// closed is a spread over hosts whose pods can be launched nowhere: only nodes that exist count; in a bound, also what limits no
	// node because nodes may be without the label.
	closed bool
}

// compileRules reads the constraints of the classes and counts the pods that exist.
func (re *relations) compileRules() {
	for ci := range re.classes {
		if re.classes[ci].broken != nil {
			continue // It goes nowhere.
		}
		re.spreadRules(ci)
		for _, s := range re.classes[ci].want.spread {
			re.rules = append(re.rules, rule{
				kind: spread, key: nodematch.NormalKey(s.key), owner: ci, selector: s.selector, inNS: s.inNS, maxSkew: s.maxSkew, minDomains: 1, soft: true,
			})
		}
		if a := re.classes[ci].pod.Spec.Affinity; a != nil {
			if a.PodAffinity != nil {
				re.affinityRules(ci, affinity, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
			}
			if a.PodAntiAffinity != nil {
				re.affinityRules(ci, antiAffinity, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
			}
		}
	}
	re.groupPeers()
	for i := range re.rules {
		r := &re.rules[i]
		r.tally, r.owners, r.domains = &tally{counts: map[string]int{}}, map[string]int{}, map[string]bool{}
		r.matched = re.matched(r)
	}
	for i := range re.in.Nodes {
		if re.in.budget.Cancelled() {
			break
		}
		re.countNode(i)
	}
	re.joinTallies()
}

func (re *relations) spreadRules(ci int) {
	pod := re.classes[ci].pod
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := spreadSelector(pod, &c)
		if err != nil {
			continue
		}
		r := rule{kind: spread, key: nodematch.NormalKey(c.TopologyKey), owner: ci, selector: selector, maxSkew: int(c.MaxSkew), minDomains: 1, policy: c}
		if c.MinDomains != nil {
			r.minDomains = int(*c.MinDomains)
		}
		r.inNS = only(pod.Namespace)
		if selector.Empty() {
			// The scheduler counts no pod at all for a selector that matches all (countPodsMatchSelector in PodTopologySpread).
			r.inNS = nobody()
		}
		re.rules = append(re.rules, r)
	}
}

// spreadSelector is the constraint's, narrowed to the pod's values of matchLabelKeys (KEP-3243).
func spreadSelector(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("topology spread over %s: %w", c.TopologyKey, err)
	}
	return matchKeys(selector, pod, selection.In, c.MatchLabelKeys), nil
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

// affinityRules reads required terms. Pods count for affinity only where they match all terms of the owner at once, as
// the scheduler counts them.
func (re *relations) affinityRules(ci int, kind ruleKind, terms []corev1.PodAffinityTerm) {
	var own []rule
	for i := range terms {
		if r, err := re.termRule(re.classes[ci].pod, &terms[i], kind == antiAffinity); err == nil {
			r.kind, r.owner = kind, ci
			own = append(own, r)
		}
	}
	if kind == affinity && len(own) > 1 {
		parts := slices.Clone(own)
		for i := range own {
			own[i].also = parts
		}
	}
	re.rules = append(re.rules, own...)
}

// termRule is whom the term of the pod speaks of, with matchLabelKeys and mismatchLabelKeys (KEP-3633).
func (re *relations) termRule(pod *corev1.Pod, t *corev1.PodAffinityTerm, careful bool) (rule, error) {
	selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		return rule{}, fmt.Errorf("pod affinity by %s: %w", t.TopologyKey, err)
	}
	selector = matchKeys(selector, pod, selection.In, t.MatchLabelKeys)
	selector = matchKeys(selector, pod, selection.NotIn, t.MismatchLabelKeys)
	return rule{key: nodematch.NormalKey(t.TopologyKey), selector: selector, inNS: re.namespacesOf(t, pod.Namespace, careful)}, nil
}

// namespacesOf says which namespaces a term speaks of: those listed and those whose labels the selector matches; the
// pod's own where it has neither. Where labels of namespaces are not known, a selector that is not empty is read as all
// namespaces if that is the careful reading, as none otherwise.
func (re *relations) namespacesOf(t *corev1.PodAffinityTerm, own string, careful bool) scope {
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
	if re.in.Namespaces == nil || err != nil {
		return scope{fmt.Sprintf("unknown or %s, %t", listed, careful), func(ns string) bool { return careful || slices.Contains(t.Namespaces, ns) }}
	}
	return scope{selector.String() + " or " + listed, func(ns string) bool {
		return slices.Contains(t.Namespaces, ns) || selector.Matches(labels.Set(re.in.Namespaces[ns]))
	}}
}

func (r *rule) matches(pod *corev1.Pod) bool {
	if !r.inNS.has(pod.Namespace) || !r.selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	for i := range r.also {
		if o := &r.also[i]; !o.inNS.has(pod.Namespace) || !o.selector.Matches(labels.Set(pod.Labels)) {
			return false
		}
	}
	return true
}

// relations are the required constraints between the pods of the classes, and between them and those that exist: where a class may go, given what is there.
type relations struct {
	in       *Input
	classes  []class
	rules    []rule
	concerns []concern
	// hosts are the spreads over hosts that are closed, by index.
	hosts []int
	peers peers
}
