package nodematch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// PodRequirements returns what a pod demands of a node's labels, as alternatives of which one must be met: its nodeSelector
// joined with each term of its required node affinity, all keys normal (catalog.NormalKey). A demand on the node's name has the
// key metadata.name. A pod without demands has one alternative, an empty one. Terms that are not valid match no node;
// if none is left, the error of the first is returned.
func PodRequirements(pod *corev1.Pod) ([]catalog.Requirements, error) {
	var base []catalog.Requirement
	for k, v := range pod.Spec.NodeSelector {
		base = append(base, catalog.Requirement{Key: k, Operator: corev1.NodeSelectorOpIn, Values: []string{v}})
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		r, err := catalog.NewRequirements(base)
		return []catalog.Requirements{r}, err
	}
	if why := TooManyTerms(&pod.Spec); why != "" {
		return nil, fmt.Errorf("pod %s/%s: %s", pod.Namespace, pod.Name, why)
	}
	var out []catalog.Requirements
	err := fmt.Errorf("pod %s/%s: spec.affinity.nodeAffinity has no term that can match", pod.Namespace, pod.Name)
	for i, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		all := append([]catalog.Requirement{}, base...)
		for _, e := range append(append([]corev1.NodeSelectorRequirement{}, term.MatchExpressions...), term.MatchFields...) {
			all = append(all, catalog.Requirement{Key: e.Key, Operator: e.Operator, Values: e.Values})
		}
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue // An empty term matches no node (NodeSelectorTerm's doc in k8s.io/api).
		}
		r, bad := catalog.NewRequirements(all)
		if bad != nil {
			if len(out) == 0 {
				err = fmt.Errorf("pod %s/%s: node affinity term %d: %w", pod.Namespace, pod.Name, i, bad)
			}
			continue
		}
		out = append(out, r)
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, err
}

// maxCombined is how many labels of a node selector and terms of node affinity a pod may have, multiplied: each term is read together with
// all of the labels. A megabyte has room for ten thousand of both.
const maxCombined = 1 << 14

// TooManyTerms says why the pod has more terms of node affinity than are read (see maxCombined); empty if it has not.
func TooManyTerms(spec *corev1.PodSpec) string {
	a := spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	labels, terms := len(spec.NodeSelector), len(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	if labels*terms <= maxCombined {
		return ""
	}
	return fmt.Sprintf("has %d labels in its node selector and %d required node affinity terms; slipway launches nodes for pods with at most %d combinations of them", labels, terms, maxCombined)
}
