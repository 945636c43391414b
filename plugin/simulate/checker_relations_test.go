package simulate_test

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// selects says whether a label selector of the pod's, with its matchLabelKeys, selects another.
func selects(selector *metav1.LabelSelector, keys []string, pod, other *corev1.Pod) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || !s.Matches(labels.Set(other.Labels)) {
		return false
	}
	return !slices.ContainsFunc(keys, func(key string) bool {
		value, ok := pod.Labels[key]
		return ok && other.Labels[key] != value
	})
}

// spread holds the pod's required topology spread: its domain has at most maxSkew more than the emptiest. Zones without
// a node count as empty where a NodePool could launch there.
func (c *checker) spread(pod *corev1.Pod, node *corev1.Node) {
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		counts := c.counts(pod, constraint)
		least := math.MaxInt
		for _, n := range counts {
			least = min(least, n)
		}
		if constraint.MinDomains != nil && len(counts) < int(*constraint.MinDomains) {
			least = 0
		}
		domain, ok := node.Labels[constraint.TopologyKey]
		if !ok || counts[domain]-least > int(constraint.MaxSkew) {
			c.errorf("pod %s/%s: spread over %s: %v, maxSkew %d", pod.Namespace, pod.Name, constraint.TopologyKey, counts, constraint.MaxSkew)
		}
	}
}

// counts are the pods that the constraint is about, by domain.
func (c *checker) counts(pod *corev1.Pod, constraint corev1.TopologySpreadConstraint) map[string]int {
	counts := map[string]int{}
	if constraint.TopologyKey == corev1.LabelTopologyZone && len(pod.Spec.NodeSelector) == 0 && pod.Spec.Affinity == nil {
		for _, zone := range c.r.market.Zones {
			counts[zone] = 0
		}
	}
	for name, n := range c.nodes {
		domain, ok := n.Labels[constraint.TopologyKey]
		match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n)
		if !ok || err != nil || !match {
			continue
		}
		counts[domain] += 0
		for _, other := range c.pods[name] {
			if other.Namespace == pod.Namespace && other.DeletionTimestamp == nil && selects(constraint.LabelSelector, constraint.MatchLabelKeys, pod, other) {
				counts[domain]++
			}
		}
	}
	return counts
}

// company holds the pod's required affinity and anti-affinity, and that of all others towards it.
func (c *checker) company(pod *corev1.Pod, node string) {
	if pod.Spec.Affinity == nil {
		return
	}
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		for _, term := range a.RequiredDuringSchedulingIgnoredDuringExecution {
			if c.beside(pod, node, term) == 0 && (!c.concerns(pod, term, pod) || c.all(pod, term) != 0) {
				c.errorf("pod %s/%s: required affinity by %s is not met on %s", pod.Namespace, pod.Name, term.TopologyKey, node)
			}
		}
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		for _, term := range a.RequiredDuringSchedulingIgnoredDuringExecution {
			if n := c.beside(pod, node, term); n > 0 {
				c.errorf("pod %s/%s: required anti-affinity by %s: %d such pods beside it on %s", pod.Namespace, pod.Name, term.TopologyKey, n, node)
			}
		}
	}
}

// concerns says whether the term of the pod is about the other.
func (c *checker) concerns(pod *corev1.Pod, term corev1.PodAffinityTerm, other *corev1.Pod) bool {
	namespaces := term.Namespaces
	if len(namespaces) == 0 && term.NamespaceSelector == nil {
		namespaces = []string{pod.Namespace}
	}
	in := slices.Contains(namespaces, other.Namespace)
	if s, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector); err == nil && term.NamespaceSelector != nil {
		for _, ns := range c.r.objects.Namespaces {
			in = in || ns.Name == other.Namespace && s.Matches(labels.Set(ns.Labels))
		}
		in = in || s.Empty()
	}
	return in && selects(term.LabelSelector, term.MatchLabelKeys, pod, other)
}

// beside counts the other pods that the term is about in the node's domain, all those anywhere.
func (c *checker) beside(pod *corev1.Pod, node string, term corev1.PodAffinityTerm) int {
	domain, ok := c.nodes[node].Labels[term.TopologyKey]
	n := 0
	for name, pods := range c.pods {
		if c.nodes[name] == nil || !ok || c.nodes[name].Labels[term.TopologyKey] != domain {
			continue
		}
		for _, other := range pods {
			if other != pod && c.concerns(pod, term, other) {
				n++
			}
		}
	}
	return n
}

func (c *checker) all(pod *corev1.Pod, term corev1.PodAffinityTerm) int {
	n := 0
	for _, pods := range c.pods {
		for _, other := range pods {
			if other != pod && c.concerns(pod, term, other) {
				n++
			}
		}
	}
	return n
}

// guards holds the required anti-affinity of pods that were there before against the newcomers.
func (c *checker) guards() {
	for name, pods := range c.pods {
		for _, pod := range pods {
			a := pod.Spec.Affinity
			if c.placed[pod] == "" && c.nodes[name] != nil && a != nil && a.PodAntiAffinity != nil {
				c.guard(pod, c.nodes[name], a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
			}
		}
	}
}

func (c *checker) guard(pod *corev1.Pod, node *corev1.Node, terms []corev1.PodAffinityTerm) {
	for _, term := range terms {
		for other, at := range c.placed {
			if c.concerns(pod, term, other) && c.nodes[at].Labels[term.TopologyKey] == node.Labels[term.TopologyKey] {
				c.errorf("pod %s/%s keeps %s/%s off %s by anti-affinity over %s", pod.Namespace, pod.Name, other.Namespace, other.Name, at, term.TopologyKey)
			}
		}
	}
}
