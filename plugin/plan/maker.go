package plan

import (
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// Maker makes plans like Make, and remembers the offers that it compiled last: where the next input has the same lists of
// instance types (the same slices, which must not be changed any more), the same NodePools but for their usage, and asks for
// the same resources, they are used again. For a few pods that is most of the work. It remembers a few of them, since the pods of
// a cluster ask now for these resources, now for those. The zero value is ready. It is for one caller at a time; a copy knows
// what the original knew, and is for another.
type Maker struct {
	// known were used last, the latest first. It is made again at each change: copies share it.
	known []*prepared
}

// maxKnown bounds what a Maker remembers.
const maxKnown = 4

// prepared are compiled offers. They must not be changed.
type prepared struct {
	key   string
	lists [][]catalog.InstanceType
	// commitments are those that pay for offers.
	commitments []commitment.Commitment
	types       []shape
	offers      []offer
	available   bitset.Set
	// ranges are the pools' of types and offers.
	ranges [][2][2]int
}

// remember puts p before the others, in place of what was known by its key: older lists of instance types are given up.
func (k *Maker) remember(p *prepared) {
	known := make([]*prepared, 1, maxKnown)
	known[0] = p
	for _, other := range k.known {
		if other.key != p.key && len(known) < maxKnown {
			known = append(known, other)
		}
	}
	k.known = known
}

// sameCommitments says that the two are one.
func sameCommitments(a, b []commitment.Commitment) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// sameList says that the two are one: not only equal.
func sameList(a, b []catalog.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
