package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// addAffinity joins the terms of the class with the node affinity that its profile requires.
func (c *class) addAffinity(required *corev1.NodeSelector) {
	if required == nil || c.termsErr != nil {
		return
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
	for _, t := range c.terms {
		for _, p := range places {
			if both := t.Intersect(p); len(joined) < maxTerms {
				if _, none := both.Conflict(); !none {
					joined = append(joined, both)
				}
			}
		}
	}
	if len(joined) == 0 {
		return false
	}
	c.terms = joined
	return true
}

// bothOf joins each of the alternatives with each of the others, if there are others. What contradicts itself matches nothing, and is named as the
// reason.
func bothOf(terms, others []catalog.Requirements) []catalog.Requirements {
	if len(others) == 0 {
		return terms
	}
	out := make([]catalog.Requirements, 0, len(terms)*len(others))
	for _, t := range terms {
		for _, o := range others {
			out = append(out, t.Intersect(o))
		}
	}
	return out
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
