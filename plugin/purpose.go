package plugin

import (
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// purpose is what a batch is planned for: pending pods, or pods of nodes that leave.
type purpose struct {
	// leaving are the names of the nodes whose pods are planned as if they did not run, sorted; none for pending pods.
	leaving []string
	// avoid are nodes that leave soon themselves: they are room only for pods that find no other.
	avoid map[string]bool
	// move says that the nodes leave in a move.
	move bool
}

// pending reports whether the pods have no node yet.
func (p purpose) pending() bool { return len(p.leaving) == 0 }

// planned is what became of a batch.
type planned struct {
	// claims are the names of the NodeClaims that were recorded.
	claims []string
	// unplaced are the pods of nodes that leave for which no room was found.
	unplaced []plan.Unplaced
}

// with returns the two outcomes as one.
func (p planned) with(other planned) planned {
	return planned{claims: append(p.claims, other.claims...), unplaced: append(p.unplaced, other.unplaced...)}
}

// setOf is a set of the names.
func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}
