package observe

import (
	"cmp"
	"slices"
)

// FewestReady is how many of the pods were Ready at the worst moment, counted at each write of one of them, since want of them were
// for the first time: a pod that is asked to leave counts no more. -1 says that so many never were.
func FewestReady(pods []Pod, want int) int {
	type change struct {
		revision uint64
		by       int
	}
	var changes []change
	for i := range pods {
		p := &pods[i]
		if !p.Ready.Seen() {
			continue
		}
		changes = append(changes, change{p.Ready.Revision, 1})
		gone := uint64(0)
		for _, m := range []Moment{p.Terminating, p.Failed, p.Deleted} {
			if m.Seen() && (gone == 0 || m.Revision < gone) {
				gone = m.Revision
			}
		}
		if gone != 0 {
			// One that was asked to leave before it was Ready counts at no time.
			changes = append(changes, change{max(gone, p.Ready.Revision), -1})
		}
	}
	// Of one write the pod that comes is before the one that goes.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(b.by, a.by)) })
	ready, fewest := 0, -1
	for _, c := range changes {
		ready += c.by
		switch {
		case fewest < 0 && ready >= want:
			fewest = ready
		case fewest >= 0:
			fewest = min(fewest, ready)
		}
	}
	return fewest
}
