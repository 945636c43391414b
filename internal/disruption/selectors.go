package disruption

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// PodBudgets are PodDisruptionBudgets by namespace: a pod is compared with those of its own.
type PodBudgets map[string][]PodBudget

// PodBudget is a PodDisruptionBudget with its parsed selector.
type PodBudget struct {
	policy   *policyv1.PodDisruptionBudget
	selector labels.Selector
}

// ReadPodBudgets parses PodDisruptionBudgets once for many nodes. The API server accepts no invalid selector. A budget with
// an invalid selector would select every pod of its namespace.
func ReadPodBudgets(list []policyv1.PodDisruptionBudget) PodBudgets { return new(Selectors).Read(list) }

// Selectors keeps the selectors of PodDisruptionBudgets from one look to the next until a budget changes: there are thousands, and each step of each move
// looks. It is for one goroutine; its zero value is ready.
type Selectors struct {
	// have are of this look and before of the one before it, by the UID of the budget.
	have, before map[types.UID]parsed
}

// parsed is the selector of a generation of a budget.
type parsed struct {
	generation int64
	selector   labels.Selector
}

// Look begins a look. What the look before it did not read is forgotten.
func (s *Selectors) Look() {
	s.before, s.have = s.have, make(map[types.UID]parsed, len(s.have))
}

// Read does what ReadPodBudgets does, and parses the selectors that it does not have.
func (s *Selectors) Read(list []policyv1.PodDisruptionBudget) PodBudgets {
	out := PodBudgets{}
	for i := range list {
		of := &list[i]
		out[of.Namespace] = append(out[of.Namespace], PodBudget{policy: of, selector: s.selector(of)})
	}
	return out
}

// selector returns the selector of a budget.
func (s *Selectors) selector(of *policyv1.PodDisruptionBudget) labels.Selector {
	known, ok := s.have[of.UID]
	if !ok {
		known, ok = s.before[of.UID]
	}
	if !ok || known.generation != of.Generation {
		selector, err := metav1.LabelSelectorAsSelector(of.Spec.Selector)
		if err != nil {
			selector = labels.Everything()
		}
		known = parsed{generation: of.Generation, selector: selector}
	}
	if s.have == nil {
		s.have = map[types.UID]parsed{}
	}
	if of.UID != "" { // One that is read from a file has none.
		s.have[of.UID] = known
	}
	return known.selector
}
