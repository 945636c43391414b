package join

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what the controller must remember of each claim between two looks. Losing it in a restart costs little: bindings
// that were answered are visible on the pods, and the startup taint stays two seconds longer.
type memory struct {
	mu     sync.Mutex
	claims map[types.UID]*remembered
}

type remembered struct {
	readySince time.Time
	answered   map[types.UID]bool
	failures   map[types.UID]int
}

func newMemory() *memory { return &memory{claims: map[types.UID]*remembered{}} }

// ready notes when a claim's node was first seen Ready, and returns that and the pods answered so far.
func (m *memory) ready(claim types.UID, ready bool, now time.Time) (time.Time, map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	if !ready {
		r.readySince = time.Time{}
	} else if r.readySince.IsZero() {
		r.readySince = now
	}
	return r.readySince, maps.Clone(r.answered)
}

// answer notes that nothing more is to be done about a pod's binding.
func (m *memory) answer(claim, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(claim).answered[pod] = true
}

// failed counts a binding that failed, and returns how often it has.
func (m *memory) failed(claim, pod types.UID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(claim)
	r.failures[pod]++
	return r.failures[pod]
}

func (m *memory) entry(claim types.UID) *remembered {
	if m.claims[claim] == nil {
		m.claims[claim] = &remembered{answered: map[types.UID]bool{}, failures: map[types.UID]int{}}
	}
	return m.claims[claim]
}

func (m *memory) forget(claim types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, claim)
}
