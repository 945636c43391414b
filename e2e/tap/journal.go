package tap

import (
	"slices"
	"sync"
	"time"
)

// remembered is how many of the latest effects a journal keeps.
const remembered = 200_000

// Effect is a request that changes something.
type Effect struct {
	// Number is the position in the order of arrival, from 1.
	Number int
	// Process is the one that sent the request, by the name of its tap.
	Process string
	// Name is what the request does, such as "patch nodeclaims/status" or "EC2 CreateFleet".
	Name string
	// Object is the namespace/name or name of the object that it changes; empty where the request does not contain it.
	Object string
	// Holder is the new holder of a leader election Lease; empty for all other objects.
	Holder string
	// Arrived is when the request reached the tap, and Answered when the server responded; zero until then, and always where
	// the request was dropped.
	Arrived, Answered time.Time
	// Status is that of the response; 0 until there is one.
	Status int
}

// Done reports whether the server carried out the request.
func (e Effect) Done() bool { return e.Status >= 200 && e.Status < 300 }

// Moment is the point at which a hook is called for an effect.
type Moment string

// The moments of an effect.
const (
	// Before is when the request has not reached the server yet.
	Before Moment = "before"
	// After is when the server has carried out the request, and the program has not received the response yet.
	After Moment = "after"
)

// Hook is called at both moments of each effect. It returns whether to drop the request, or the response.
type Hook func(e Effect, m Moment) (lose bool)

// Journal is the record of the effects of all taps that share it. It is safe for concurrent use.
type Journal struct {
	mu      sync.Mutex
	number  int
	effects []*Effect
	hook    Hook
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{} }

// SetHook sets the hook to call; nil for none.
func (j *Journal) SetHook(hook Hook) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hook = hook
}

// Since returns the remembered effects with a higher number.
func (j *Journal) Since(number int) []Effect {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, _ := slices.BinarySearchFunc(j.effects, number+1, func(e *Effect, n int) int { return e.Number - n })
	var out []Effect
	for _, e := range j.effects[from:] {
		out = append(out, *e)
	}
	return out
}

// Last returns the number of the latest effect; 0 where there is none.
func (j *Journal) Last() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.number
}

func (j *Journal) begin(e Effect) *Effect {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.number++
	e.Number, e.Arrived = j.number, time.Now()
	if len(j.effects) >= remembered {
		j.effects = slices.Clone(j.effects[len(j.effects)-remembered/2:])
	}
	j.effects = append(j.effects, &e)
	return &e
}

func (j *Journal) answered(e *Effect, status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Answered, e.Status = time.Now(), status
}

// ask calls the hook without the lock, since the hook may block or kill the process.
func (j *Journal) ask(e *Effect, m Moment) bool {
	j.mu.Lock()
	hook, copied := j.hook, *e
	j.mu.Unlock()
	return hook != nil && hook(copied, m)
}
