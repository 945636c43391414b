package tap

import (
	"slices"
	"sync"
	"time"
)

// remembered is how many effects a journal keeps, the latest ones.
const remembered = 200_000

// Effect is a request that changes something.
type Effect struct {
	// Number in the order of arrival, from 1.
	Number int
	// Process that asked, by the name of its tap.
	Process string
	// Name of what is done, such as "patch nodeclaims/status" or "EC2 CreateFleet".
	Name string
	// Object it is done to, as namespace/name or name; empty where the request does not tell.
	Object string
	// Holder is whom a leader election Lease is to name; empty for everything else.
	Holder string
	// Arrived at the tap, and Answered by the server; zero until then, and for ever where the request was lost.
	Arrived, Answered time.Time
	// Status of the answer, 0 until it came.
	Status int
}

// Done says whether the server did what was asked.
func (e Effect) Done() bool { return e.Status >= 200 && e.Status < 300 }

// Moment is where an effect stands when a hook is asked about it.
type Moment string

// The moments of an effect.
const (
	// Before the request reaches the server.
	Before Moment = "before"
	// After the server has done it and before the program hears of it.
	After Moment = "after"
)

// Hook is asked at both moments of each effect, and says whether what is on its way now, request or answer, is lost.
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

// SetHook has hook asked from now on; nil asks nobody.
func (j *Journal) SetHook(hook Hook) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hook = hook
}

// Since returns the effects with a number above the given one that are remembered.
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

// Last is the number of the latest effect, 0 where there is none.
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

// ask calls the hook without the lock: it may take its time, and kill.
func (j *Journal) ask(e *Effect, m Moment) bool {
	j.mu.Lock()
	hook, copied := j.hook, *e
	j.mu.Unlock()
	return hook != nil && hook(copied, m)
}
