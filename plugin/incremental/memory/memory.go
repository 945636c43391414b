// Package memory keeps what is remembered of the pods of a class from one scheduling cycle to the next.
package memory

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"github.com/slipway-k8s/slipway/plugin/breaker"
	"github.com/slipway-k8s/slipway/plugin/incremental/ledger"
)

const (
	// sightings bounds the classes that are known to have come once.
	sightings = 1024
	// unused is for how long memory is kept that no pod needs: it holds on to all pods of its time.
	unused = 5 * time.Minute
)

// Key is equal for the pods of one class, and has one size whatever a pod contains.
type Key [sha256.Size]byte

// KeyOf returns the key of what distinguishes a class. It fails for what has no JSON.
func KeyOf(parts any) (Key, error) {
	text, err := json.Marshal(parts)
	if err != nil {
		return Key{}, err
	}
	return sha256.Sum256(text), nil
}

// Memory has the classes of one plugin of one profile, and the ledger that brings them up to date. Class, Update, Current and the ledger are for functions that Do runs.
type Memory[T any] struct {
	// Breaker is off while nothing is remembered because that has failed.
	Breaker breaker.Breaker
	// Ledger has the changes of the cluster.
	Ledger ledger.Ledger

	mu sync.Mutex

	updated       fwk.StateKey
	seen, classes *lru.Cache
	used          time.Time
}

// New returns an empty memory of so many classes at most for the plugin of this name. tripped is called when the breaker is tripped.
func New[T any](plugin string, most int, tripped func(name string, cause any)) *Memory[T] {
	return &Memory[T]{
		Breaker: breaker.Breaker{Name: plugin, Tripped: tripped}, updated: fwk.StateKey("Ledger" + plugin), seen: lru.New(sightings), classes: lru.New(most),
	}
}

// Do runs f with the lock unless the breaker is off. What f did not bring to its end is forgotten.
func (m *Memory[T]) Do(logger klog.Logger, f func()) {
	ran := m.Breaker.Do(logger, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		f()
	})
	if !ran {
		m.Forget()
	}
}

// Class returns the class with the key of the pod. A class of which no other pod was seen is none yet, and nil: pods that have no equal are left to Kubernetes' plugin,
// which counts with several goroutines, and displace nothing. A class of which another pod comes is made.
func (m *Memory[T]) Class(key Key, of types.UID, make func() (*T, error)) (*T, error) {
	if value, ok := m.classes.Get(key); ok {
		known, _ := value.(*T)
		return known, nil
	}
	if by, seen := m.seen.Get(key); !seen || by == of {
		m.seen.Add(key, of)
		return nil, nil
	}
	made, err := make()
	if err != nil {
		return nil, err
	}
	m.classes.Add(key, made)
	return made, nil
}

// Len returns how many classes are remembered.
func (m *Memory[T]) Len() int { return m.classes.Len() }

// Update brings the ledger up to date, once in a cycle: a cycle has one snapshot.
func (m *Memory[T]) Update(cycle fwk.CycleState, nodes []fwk.NodeInfo) {
	if m.Current(cycle) {
		return
	}
	m.used = time.Now()
	m.Ledger.Update(nodes)
	cycle.Write(m.updated, m.Ledger.Now())
}

// Current reports whether the ledger was brought up to date in this cycle, and was not forgotten since.
func (m *Memory[T]) Current(cycle fwk.CycleState) bool {
	at, err := cycle.Read(m.updated)
	return err == nil && at == fwk.StateData(m.Ledger.Now())
}

// Forget gives up all of it.
func (m *Memory[T]) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
}

// Rest gives up what was not used for five minutes. It is called in each cycle.
func (m *Memory[T]) Rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.used.IsZero() && time.Since(m.used) > unused {
		m.forget()
	}
}

func (m *Memory[T]) forget() {
	m.Ledger, m.used = ledger.Ledger{}, time.Time{}
	m.seen.Clear()
	m.classes.Clear()
}
