package calm

import (
	"fmt"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// readTries is how often reading what was decided before may fail. After that it counts as nothing.
const readTries = 6

// Memory has the evictions of moves that have deleted nodes, also by processes that led before.
type Memory struct {
	Evictions

	// unread is how many more times it is tried to read what these have decided.
	unread int
}

// NewMemory returns the memory of a process that does not lead yet.
func NewMemory() Memory { return Memory{Evictions: Evictions{}, unread: readTries} }

// Recall counts the evictions of before. It reads them once, and again at the next call after an error. After some errors it does without.
func (m *Memory) Recall(read func() ([]view.Decision, error)) error {
	if m.unread == 0 {
		return nil
	}
	m.unread--
	before, err := read()
	if err != nil {
		return fmt.Errorf("reading which pods consolidation has evicted before: %w", err)
	}
	*m = Memory{Evictions: EvictionsOf(before)}
	return nil
}
