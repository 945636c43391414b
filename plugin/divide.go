package plugin

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// divide returns the parts of a batch of several pods in which it is tried again after a failure, at least two: one for
// each namespace, in the order of their first pods, so that one tenant's pods fail alone; the pods of one namespace in
// halves, gangs whole where there is more than one.
func divide(entries []entry) [][]entry {
	var parts [][]entry
	of := map[string]int{}
	for _, e := range entries {
		i, known := of[e.pod.Namespace]
		if !known {
			i = len(parts)
			of[e.pod.Namespace] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], e)
	}
	if len(parts) > 1 {
		return parts
	}
	sorted, half := halves(entries)
	return [][]entry{sorted[:half], sorted[half:]}
}

// halves sorts the entries so that the pods of a gang are side by side, and returns where to cut: between two gangs if that
// leaves something on both sides.
func halves(entries []entry) ([]entry, int) {
	first := map[string]int{}
	for i, e := range entries {
		if _, ok := first[e.gang.Name]; !ok && e.gang.Name != "" {
			first[e.gang.Name] = i
		}
	}
	at := map[types.UID]int{}
	for i, e := range entries {
		at[e.pod.UID] = i
		if e.gang.Name != "" {
			at[e.pod.UID] = first[e.gang.Name]
		}
	}
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b entry) int { return cmp.Compare(at[a.pod.UID], at[b.pod.UID]) })
	half := len(out) / 2
	whole := func(i int) bool { return out[i].gang.Name == "" || out[i].gang.Name != out[i-1].gang.Name }
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
