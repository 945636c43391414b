package pending

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

// Divide returns the parts in which a batch of several pods is tried again after a failure, at least two. There is one part for
// each namespace, in the order of their first pods, so that one tenant's pods fail alone. The pods of one namespace are halved;
// gangs stay whole if there is more than one.
func Divide(entries []intake.Entry) [][]intake.Entry {
	var parts [][]intake.Entry
	of := map[string]int{}
	for _, e := range entries {
		i, known := of[e.Pod.Namespace]
		if !known {
			i = len(parts)
			of[e.Pod.Namespace] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], e)
	}
	if len(parts) > 1 {
		return parts
	}
	sorted, half := halves(entries)
	return [][]intake.Entry{sorted[:half], sorted[half:]}
}

// halves sorts the entries so that the pods of a gang are side by side, and returns where to divide them: between two gangs if
// both halves then have pods.
func halves(entries []intake.Entry) ([]intake.Entry, int) {
	first := map[string]int{}
	for i, e := range entries {
		if _, ok := first[e.Gang.Name]; !ok && e.Gang.Name != "" {
			first[e.Gang.Name] = i
		}
	}
	at := map[types.UID]int{}
	for i, e := range entries {
		at[e.Pod.UID] = i
		if e.Gang.Name != "" {
			at[e.Pod.UID] = first[e.Gang.Name]
		}
	}
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b intake.Entry) int { return cmp.Compare(at[a.Pod.UID], at[b.Pod.UID]) })
	half := len(out) / 2
	whole := func(i int) bool { return out[i].Gang.Name == "" || out[i].Gang.Name != out[i-1].Gang.Name }
	for d := range half {
		if whole(half - d) {
			return out, half - d
		}
		if half+d < len(out) && whole(half+d) {
			return out, half + d
		}
	}
	return out, half
}
