package plan_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// place is a node of the finished plan with the pods on it.
type place struct {
	name   string
	labels map[string]string
	pods   []*corev1.Pod
	// planned is how many of the pods the plan put there: the last ones.
	planned int
}

// places is what the cluster looks like once the plan has come true.
func places(in plan.Input, p plan.Plan) []place {
	var out []place
	byName := map[string]int{}
	add := func(name string, at map[string]string, pods []*corev1.Pod) {
		own := map[string]string{corev1.LabelHostname: name}
		maps.Copy(own, at)
		byName[name] = len(out)
		out = append(out, place{name: name, labels: own, pods: pods})
	}
	put := func(name string, ms []plan.Member) {
		pl := &out[byName[name]]
		for _, m := range ms {
			for range m.Pods {
				pl.pods = append(pl.pods, in.Classes[m.Class].Pod)
				pl.planned++
			}
		}
	}
	for _, n := range in.Nodes {
		add(n.Name, n.Labels, append([]*corev1.Pod{}, n.Pods...))
	}
	for _, x := range p.Placements {
		put(x.Node, x.Members)
	}
	for _, c := range p.Claims {
		add(c.Name, c.Labels, nil)
		put(c.Name, c.Members)
	}
	return out
}

// checkRelations checks required affinity, anti-affinity, spread and host ports on the finished plan, with code of its own.
func checkRelations(t *testing.T, in plan.Input, p plan.Plan) {
	t.Helper()
	all := places(in, p)
	for i := range all {
		for k := len(all[i].pods) - all[i].planned; k < len(all[i].pods); k++ {
			pod := all[i].pods[k]
			if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
				for _, term := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
					if countNear(all, i, k, pod, term) == 0 && countAll(all, i, k, pod, term) > 0 {
						t.Errorf("%s on %s: others match its affinity by %s, none is near", pod.Name, all[i].name, term.TopologyKey)
					}
				}
			}
			for _, c := range pod.Spec.TopologySpreadConstraints {
				checkSpread(t, all, i, pod, c)
			}
		}
		for k, pod := range all[i].pods {
			if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
				for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
					if n := countNear(all, i, k, pod, term); n > 0 {
						t.Errorf("%s on %s: %d pods by %s that its anti-affinity forbids", pod.Name, all[i].name, n, term.TopologyKey)
					}
				}
			}
		}
		checkPorts(t, &all[i])
	}
}

// countNear counts the pods other than pods[k] of place i in its domain that the term matches.
func countNear(all []place, i, k int, pod *corev1.Pod, term corev1.PodAffinityTerm) int {
	here, n := all[i].labels[term.TopologyKey], 0
	if all[i].labels != nil && here == "" {
		return 0 // No domain.
	}
	for j := range all {
		if all[j].labels[term.TopologyKey] != here {
			continue
		}
		for l, other := range all[j].pods {
			if (j != i || l != k) && termMatches(pod, term, other) {
				n++
			}
		}
	}
	return n
}

// termMatches leaves namespaceSelectors to the scenarios.
func termMatches(pod *corev1.Pod, term corev1.PodAffinityTerm, other *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	namespaces := term.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{pod.Namespace}
	}
	if err != nil || !slices.Contains(namespaces, other.Namespace) || !selector.Matches(labels.Set(other.Labels)) {
		return false
	}
	for _, key := range term.MatchLabelKeys {
		if v, ok := pod.Labels[key]; ok && other.Labels[key] != v {
			return false
		}
	}
	for _, key := range term.MismatchLabelKeys {
		if v, ok := pod.Labels[key]; ok && other.Labels[key] == v {
			return false
		}
	}
	return true
}

func countAll(all []place, i, k int, pod *corev1.Pod, term corev1.PodAffinityTerm) int {
	everywhere := make([]place, len(all))
	for j := range all {
		everywhere[j] = all[j]
		everywhere[j].labels = nil
	}
	return countNear(everywhere, i, k, pod, term)
}

// checkSpread compares the pod's domain with the emptiest one among those that the plan used or that existed. That there
// could be emptier ones is the scenarios' business.
func checkSpread(t *testing.T, all []place, i int, pod *corev1.Pod, c corev1.TopologySpreadConstraint) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil || c.WhenUnsatisfiable != corev1.DoNotSchedule {
		return
	}
	counts := map[string]int{}
	for j := range all {
		v, ok := all[j].labels[c.TopologyKey]
		if !ok || !admitted(pod, all[j].labels) {
			continue
		}
		counts[v] += matching(all[j].pods, pod, c, selector)
	}
	least := -1
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
	}
	if here := counts[all[i].labels[c.TopologyKey]]; here-least > int(c.MaxSkew) {
		t.Errorf("%s on %s: %d match by %s, the least is %d, maxSkew %d", pod.Name, all[i].name, here, c.TopologyKey, least, c.MaxSkew)
	}
}

// matching counts the pods that the constraint of the pod counts: of its namespace, and with its values of matchLabelKeys.
func matching(pods []*corev1.Pod, pod *corev1.Pod, c corev1.TopologySpreadConstraint, selector labels.Selector) int {
	n := 0
	for _, other := range pods {
		same := other.Namespace == pod.Namespace && !selector.Empty() && selector.Matches(labels.Set(other.Labels))
		for _, key := range c.MatchLabelKeys {
			same = same && other.Labels[key] == pod.Labels[key]
		}
		if same {
			n++
		}
	}
	return n
}

func checkPorts(t *testing.T, p *place) {
	t.Helper()
	type taken struct {
		pod  string
		port corev1.ContainerPort
	}
	var all []taken
	for _, pod := range p.pods {
		for _, c := range pod.Spec.Containers {
			for _, port := range c.Ports {
				if port.HostPort == 0 {
					continue
				}
				for _, o := range all {
					sameIP := o.port.HostIP == port.HostIP || o.port.HostIP == "" || port.HostIP == ""
					if sameIP && o.port.HostPort == port.HostPort && o.port.Protocol == port.Protocol {
						t.Errorf("%s: %s and %s both want port %d", p.name, o.pod, pod.Name, port.HostPort)
					}
				}
				all = append(all, taken{pod.Name, port})
			}
		}
	}
}
