package server

import (
	"slices"
	"sync"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/api"
)

// mostEnds bounds the ends that are remembered: streams look at them within a second.
const mostEnds = 10_000

// shownEnds are the NodeClaims whose nodes were in flight and are so no more, in the order in which the cache showed it. Its zero value is ready. It is safe
// for concurrent use.
type shownEnds struct {
	mu     sync.Mutex
	claims []string
	// first is the number of the first of them.
	first int
}

// changed records the end of a node, if the change of an object of the cache is one. after is nil for an object that is gone.
func (s *shownEnds) changed(before, after any) {
	was, ok := before.(*karpv1.NodeClaim)
	if !ok || !conditions.InFlight(was) {
		return
	}
	if is, ok := after.(*karpv1.NodeClaim); ok && conditions.InFlight(is) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, was.Name)
	if len(s.claims) > mostEnds {
		s.first += mostEnds / 2
		s.claims = slices.Clone(s.claims[mostEnds/2:])
	}
}

// now returns the number of the next end.
func (s *shownEnds) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first + len(s.claims)
}

// since returns the NodeClaims that ended since the number, and the number for the next call.
func (s *shownEnds) since(number int) (claims []string, next int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.claims[max(number-s.first, 0):]), s.first + len(s.claims)
}

// ends matches the ends that a stream sends with those that the cache showed, so that the end of a node is sent that came and went between two of the
// stream's looks: the scheduler would wait for it.
type ends struct {
	shown *shownEnds
	next  int
	// half are the NodeClaims of which one of the two is known and the other is to come.
	half map[string]bool
}

// newEnds matches what ends from now on.
func newEnds(shown *shownEnds) *ends {
	return &ends{shown: shown, next: shown.now(), half: map[string]bool{}}
}

// with returns the ends that a look has found, and those of the nodes that no look has found. found reports whether this look or the last one had the node.
func (e *ends) with(ended []*api.InFlightEnd, found func(claim string) bool) []*api.InFlightEnd {
	for _, end := range ended {
		e.meet(end.GetNodeClaim())
	}
	claims, next := e.shown.since(e.next)
	e.next = next
	for _, name := range claims {
		if e.half[name] || found(name) {
			e.meet(name)
		} else {
			ended = append(ended, &api.InFlightEnd{NodeClaim: name})
		}
	}
	return ended
}

// meet notes one of the two, and forgets the NodeClaim with the other.
func (e *ends) meet(claim string) {
	switch {
	case e.half[claim]:
		delete(e.half, claim)
	case len(e.half) >= mostEnds:
		clear(e.half) // The worst of it is an end that is sent twice.
	default:
		e.half[claim] = true
	}
}
