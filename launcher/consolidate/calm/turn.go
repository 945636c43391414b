package calm

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Turn is how many nodes a decision is asked about: fewer than all after one that ran out of time, so that the next ones come to an end. Zero stands for all.
type Turn int

// After returns the turn after a decision that asked about so many nodes while so many waited: half of them if it ran out of time, a quarter more than before
// if it did not, and all once none waited.
func (t Turn) After(asked, waited int, timedOut bool) Turn {
	switch {
	case timedOut:
		return Turn(max(asked/2, 1))
	case waited == 0:
		return 0
	}
	return t + max(t/4, 1)
}

// Wait returns the nodes whose turn it is not: all but those that were looked at longest ago. Of nodes that were looked at at one time, the first ones by
// NodeClaim have their turn.
func (t Turn) Wait(looks Looks, nodes []types.UID) []types.UID {
	if t == 0 || int(t) >= len(nodes) {
		return nil
	}
	out := slices.Clone(nodes)
	slices.SortFunc(out, func(a, b types.UID) int { return cmp.Or(looks[a].Compare(looks[b]), cmp.Compare(a, b)) })
	return out[t:]
}
