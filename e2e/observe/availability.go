package observe

import (
	"cmp"
	"slices"
)

// FewestReady returns the lowest number of Ready pods at any write, after want of them were Ready for the first time. A
// terminating pod does not count. It returns -1 where want of them were never Ready.
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
		ended := uint64(0)
		for _, m := range []Moment{p.Terminating, p.Failed, p.Deleted} {
			if m.Seen() && (ended == 0 || m.Revision < ended) {
				ended = m.Revision
			}
		}
		if ended != 0 {
			// A pod that was terminating before it was Ready never counts.
			changes = append(changes, change{max(ended, p.Ready.Revision), -1})
		}
	}
	// Within one write, the pod that becomes Ready counts before the one that terminates.
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
