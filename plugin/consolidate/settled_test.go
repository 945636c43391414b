package consolidate

import (
	"fmt"
	"testing"
	"time"
)

// A move of thousands of pods is looked at once, not once for each of its nodes: in a fleet of 5,000 nodes that was nine tenths of a decision.
func TestSettledLooksAtEachMoveOnce(t *testing.T) {
	of := func(nodes int) (*search, []Move) {
		s, m := &search{nodes: map[string]*Node{}}, Move{Targets: map[string]string{}}
		for i := range nodes {
			n := Node{Name: fmt.Sprintf("n%d", i)}
			m.Nodes, s.nodes[n.Name] = append(m.Nodes, n), &n
			for p := range 10 {
				m.Targets[fmt.Sprintf("%s/%d", n.Name, p)] = "n0"
			}
		}
		return s, []Move{m}
	}
	took := func(nodes int) time.Duration {
		s, moves := of(nodes)
		least := time.Hour
		for range 5 {
			began := time.Now()
			goes, waits := s.settled(moves)
			least = min(least, time.Since(began))
			if len(goes) != nodes || !goes["n0"] || len(waits) > 0 {
				t.Fatalf("%d of %d nodes go, %d wait", len(goes), nodes, len(waits))
			}
		}
		return least
	}
	if few, many := took(200), took(3200); many > 100*few {
		t.Errorf("%s for 200 nodes, %s for 16 times as many", few, many)
	}
	s, moves := of(20)
	s.nodes["n0"].Soon = true
	if goes, waits := s.settled(moves); goes["n0"] || len(waits) != 20 {
		t.Errorf("a move to a node that may go soon: %v go, %d wait", goes, len(waits))
	}
}
