package webapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

const (
	// fresh is the least time for which an answer is used again.
	fresh = time.Second
	// rests is how many times as long as it took to compute an answer is used again.
	rests = 10
	// stale is the most that an answer is too old while the next one is computed.
	stale = 10 * time.Second
	// quick is how long an answer may take that who asks waits for. One that takes longer is computed beside, if there is one before that is recent.
	quick = 20 * time.Millisecond
	// mostAnswers bounds the answers that are kept: one for each namespace that is asked for.
	mostAnswers = 256
)

// document is an encoded answer.
type document struct {
	body []byte
	// tag is its ETag.
	tag string
}

// memo keeps answers for a short time. It is safe for concurrent use; the zero value is empty.
type memo[T any] struct {
	mu      sync.Mutex
	answers map[string]*answer[T]
	// beside are the answers that are being computed while no request waits; at most one for each key.
	beside sync.WaitGroup
}

// answer is one that is kept, or computed.
type answer[T any] struct {
	// mu is held by who computes the answer.
	mu   sync.Mutex
	kept atomic.Pointer[kept[T]]
}

// kept is an answer with the time until which it is used again, and how long it took to compute.
type kept[T any] struct {
	value T
	until time.Time
	took  time.Duration
}

// get returns the answer of the key. compute makes it where there is none or it is too old. Where that takes long, or others compute it, who asks
// gets the one before if it is recent, and otherwise waits.
func (m *memo[T]) get(key string, now func() time.Time, compute func() (T, error)) (T, error) {
	a := m.of(key, now())
	have, begin := a.kept.Load(), now()
	if have != nil && begin.Before(have.until) {
		return have.value, nil
	}
	recent := have != nil && begin.Before(have.until.Add(stale))
	mine := a.mu.TryLock()
	switch {
	case recent && !mine:
		return have.value, nil
	case recent && have.took > quick:
		m.beside.Go(func() { a.beside(now, compute) })
		return have.value, nil
	case !mine:
		a.mu.Lock()
	}
	defer a.mu.Unlock()
	return a.compute(now, compute)
}

// compute makes the answer unless another has made it meanwhile. The caller holds mu.
func (a *answer[T]) compute(now func() time.Time, compute func() (T, error)) (T, error) {
	begin := now()
	if have := a.kept.Load(); have != nil && begin.Before(have.until) {
		return have.value, nil
	}
	value, err := compute()
	if err != nil {
		return value, err
	}
	end := now()
	a.kept.Store(&kept[T]{value, end.Add(max(fresh, rests*end.Sub(begin))), end.Sub(begin)})
	return value, nil
}

// beside computes the answer for those that ask next, and gives up mu. No request is there to report a failure to, or to end with a panic.
func (a *answer[T]) beside(now func() time.Time, compute func() (T, error)) {
	defer a.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(fmt.Errorf("computing an answer of the API: %v", p), "An answer was not computed", "stack", string(debug.Stack()))
		}
	}()
	if _, err := a.compute(now, compute); err != nil {
		klog.Background().V(1).Info("An answer of the API was not computed; the next request does it", "err", err)
	}
}

// of returns the answer of the key. Where too many are kept, those that are too old are dropped, or else all.
func (m *memo[T]) of(key string, now time.Time) *answer[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.answers[key]; ok {
		return a
	}
	if len(m.answers) >= mostAnswers {
		for k, a := range m.answers {
			if a.mu.TryLock() {
				if have := a.kept.Load(); have == nil || !now.Before(have.until) {
					delete(m.answers, k)
				}
				a.mu.Unlock()
			}
		}
	}
	if len(m.answers) >= mostAnswers || m.answers == nil {
		m.answers = map[string]*answer[T]{}
	}
	a := &answer[T]{}
	m.answers[key] = a
	return a
}

// encoded returns a value as JSON with its ETag.
func encoded(value any) (document, error) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(value); err != nil {
		return document{}, err
	}
	sum := sha256.Sum256(body.Bytes())
	return document{body: body.Bytes(), tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}, nil
}
