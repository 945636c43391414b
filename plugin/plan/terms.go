package plan

import (
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// addAffinity joins the terms of the class with the node affinity that its profile requires.
func (c *class) addAffinity(required *corev1.NodeSelector) {
	if required == nil || c.termsErr != nil || !slices.ContainsFunc(c.terms, consistent) {
		return // What contradicts itself matches nothing, whatever the profile requires.
	}
	const origin = "addedAffinity of the scheduler's profile"
	places := termRequirements(required.NodeSelectorTerms)
	if !c.join(places, origin) {
		c.broken = &Reason{Code: "RequirementsConflict", Message: fmt.Sprintf("%s requires %s, which the pod's other demands rule out", origin, termsText(places))}
	}
}

// join joins the terms of the class with places, one of which has to match as well, and notes what these come from. It reports false
// if no term is left.
func (c *class) join(places []catalog.Requirements, origin string) bool {
	if c.origins == nil {
		c.origins = map[string]string{}
	}
	for _, place := range places {
		for key := range place {
			if c.origins[key] == "" {
				c.origins[key] = origin
			}
		}
	}
	var joined []catalog.Requirements
	for both := range pairs(c.terms, places) {
		if len(joined) == maxTerms {
			break
		}
		if consistent(both) {
			joined = append(joined, both)
		}
	}
	if len(joined) == 0 {
		return false
	}
	c.terms = joined
	return true
}

// consistent reports whether some node may meet the requirements.
func consistent(r catalog.Requirements) bool {
	_, none := r.Conflict()
	return !none
}

// pairs yields what each of the terms and each of the others require together. Some of that may contradict itself.
func pairs(terms, others []catalog.Requirements) iter.Seq[catalog.Requirements] {
	return func(yield func(catalog.Requirements) bool) {
		for _, t := range terms {
			for _, o := range others {
				if !yield(t.Intersect(o)) {
					return
				}
			}
		}
	}
}

// of returns for people what a requirement of the class comes from; empty for one of the pod's own.
func (c *class) of(key string) string {
	if origin := c.origins[key]; origin != "" {
		return " (" + origin + ")"
	}
	return ""
}

// termRequirements returns the terms that can match some node; nil for none.
func termRequirements(terms []corev1.NodeSelectorTerm) []catalog.Requirements {
	selector := &corev1.NodeSelector{NodeSelectorTerms: terms}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}}}
	out, err := nodematch.PodRequirements(pod)
	if err != nil {
		return nil
	}
	return out
}
