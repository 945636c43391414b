package plan

import (
	"maps"
	"slices"
	"strconv"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Room is what a planned node has left for pods that a Deployment is expected to add. Nothing is kept for them: other pods may take it.
type Room struct {
	// Workload is the Deployment, as namespace/name.
	Workload string
	// Pods is their number.
	Pods int
}

// WithoutExpected returns a plan of the input whose first pods[i] pods of each class are there, and the others are expected. Pods of one class are equal:
// those that are there get the room on nodes that exist, and then that of as few and cheap claims as they need. A claim for expected pods alone is left out.
// The workloads are those of the expected pods by class. It reports false if a pod that is there gets no room.
func WithoutExpected(p Plan, classes []Class, pods []int, workloads map[int]string) (Plan, bool) {
	left := slices.Clone(pods)
	take := func(members []Member) (out []Member, rest map[int]int) {
		rest = map[int]int{}
		for _, m := range members {
			n := min(left[m.Class], len(m.Pods))
			from := pods[m.Class] - left[m.Class]
			left[m.Class] -= n
			if n > 0 {
				out = append(out, Member{Class: m.Class, Pods: slices.Clone(classes[m.Class].Pods[from : from+n])})
			}
			if n < len(m.Pods) {
				rest[m.Class] += len(m.Pods) - n
			}
		}
		return out, rest
	}
	out := p
	out.Claims, out.Placements, out.Unplaced, out.proofs = nil, nil, nil, nil
	for _, at := range p.Placements {
		if at.Members, _ = take(at.Members); len(at.Members) > 0 {
			out.Placements = append(out.Placements, at)
		}
	}
	used := make([]bool, len(p.Claims))
	for range p.Claims {
		i := nextClaim(p.Claims, used, left)
		if i < 0 {
			break
		}
		used[i] = true
		c := p.Claims[i]
		var rest map[int]int
		c.Members, rest = take(c.Members)
		for _, ci := range slices.Sorted(maps.Keys(rest)) {
			c.Expects = append(c.Expects, Room{Workload: workloads[ci], Pods: rest[ci]})
		}
		out.Claims = append(out.Claims, c)
	}
	for i := range p.Claims {
		if !used[i] {
			out.CostPerHour -= p.Claims[i].Expected.Price
			out.PlainCostPerHour -= p.Claims[i].Expected.Price
			out.FirstFitPerHour = max(out.FirstFitPerHour-p.Claims[i].Expected.Price, 0)
		}
	}
	slices.SortStableFunc(out.Claims, func(a, b Claim) int { return claimIndex(p.Claims, a.Name) - claimIndex(p.Claims, b.Name) })
	return out, !slices.ContainsFunc(left, func(n int) bool { return n > 0 })
}

// claimIndex is where the claim of that name is.
func claimIndex(claims []Claim, name string) int {
	return slices.IndexFunc(claims, func(c Claim) bool { return c.Name == name })
}

// nextClaim returns the claim that has room for the most pods that are left, for its price, and of equal ones that with the most room; -1 if none has any.
func nextClaim(claims []Claim, used []bool, left []int) int {
	best, most, room := -1, 0.0, 0
	for i := range claims {
		if used[i] {
			continue
		}
		n, all := 0, 0
		for _, m := range claims[i].Members {
			n, all = n+min(left[m.Class], len(m.Pods)), all+len(m.Pods)
		}
		if worth := float64(n) / max(claims[i].Expected.Price, 1e-6); worth > most || n > 0 && worth == most && all > room {
			best, most, room = i, worth, all
		}
	}
	return best
}

// ExpectedPods are pods that do not exist, for Class.Pods.
func ExpectedPods(workload string, n int) []catalog.PodRef {
	out := make([]catalog.PodRef, n)
	for i := range out {
		out[i] = expectedPod(workload, i)
	}
	return out
}

func expectedPod(workload string, i int) catalog.PodRef {
	name := "expected:" + workload + "-" + strconv.Itoa(i+1) // No pod of a user has a colon in its name.
	return catalog.PodRef{Namespace: "expected", Name: name, UID: catalog.VirtualUIDPrefix + name}
}
