package webapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"
)

const (
	// fresh is the least time for which an answer is used again.
	fresh = time.Second
	// rests is how many times as long as it took to compute an answer is used again.
	rests = 10
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
}

// answer is one that is kept, or computed.
type answer[T any] struct {
	mu    sync.Mutex
	value T
	until time.Time
}

// get returns the answer of the key. compute makes it where there is none or it is too old; others who ask meanwhile wait for it.
func (m *memo[T]) get(key string, now func() time.Time, compute func() (T, error)) (T, error) {
	a := m.of(key, now())
	a.mu.Lock()
	defer a.mu.Unlock()
	begin := now()
	if begin.Before(a.until) {
		return a.value, nil
	}
	value, err := compute()
	if err != nil {
		return value, err
	}
	end := now()
	a.value, a.until = value, end.Add(max(fresh, rests*end.Sub(begin)))
	return value, nil
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
				if !now.Before(a.until) {
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
