package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// last is the number of nodes that NodeRegistrationHealthy considers, and tooMany how many failures of them make it False, as in
	// Karpenter (pkg/state/nodepoolhealth).
	last, tooMany = 4, 2
	// firstHold is the duration of a NodePool's first hold. Each failed try doubles it, up to longestHold.
	firstHold, longestHold = time.Minute, time.Hour
)

// Breaker is the registration history of one NodePool's nodes. The zero value is an empty history.
type Breaker struct {
	// Nodes records for the last nodes whether they joined, the oldest first.
	Nodes []bool
	// Tries is the number of failed tries in a row since the NodePool became unhealthy; 0 while it is not held.
	Tries int
	// Since is when the last try failed: older nodes belong to it, whenever they fail.
	Since time.Time
	// Until is the end of the hold. After it, one node at a time is tried.
	Until time.Time
	// Why is the text of the last failure.
	Why string
	// Written is the message that the condition had before the launcher restarted. It holds until something new is known; empty then.
	Written string
}

// Restored returns the Breaker of a NodePool whose condition, with its message, is all that is known of it: its nodes are tried one
// at a time from now on, and what is said of it stays.
func Restored(healthy bool, since time.Time, message string) Breaker {
	if healthy {
		return Breaker{Nodes: []bool{true}}
	}
	return Breaker{Nodes: slices.Repeat([]bool{false}, tooMany), Tries: 1, Since: since, Written: message}
}

// Joined records a node that registered: the hold ends.
func (b Breaker) Joined() Breaker {
	return Breaker{Nodes: b.with(true)}
}

// Failed records a node that did not join, with the creation time of its NodeClaim. Many nodes of one try fail together: that counts as one
// failure.
func (b Breaker) Failed(created, now time.Time, why string) Breaker {
	b.Nodes = b.with(false)
	if b.Healthy() || b.Tries > 0 && !created.After(b.Since) {
		return b
	}
	b.Tries++
	b.Why, b.Written, b.Since, b.Until = why, "", now, now.Add(hold(b.Tries))
	return b
}

func hold(tries int) time.Duration {
	out := firstHold
	for range tries - 1 {
		if out *= 2; out >= longestHold {
			return longestHold
		}
	}
	return out
}

func (b Breaker) with(joined bool) []bool {
	out := append(slices.Clone(b.Nodes), joined)
	return out[max(0, len(out)-last):]
}

// Healthy returns the value of NodeRegistrationHealthy, once a node has been recorded.
func (b Breaker) Healthy() bool {
	failed := 0
	for _, joined := range b.Nodes {
		if !joined {
			failed++
		}
	}
	return failed < tooMany
}

// Gate is whether a NodePool may launch nodes, and how many at a time.
type Gate struct {
	// Held means that it may not launch now.
	Held bool
	// OneAtATime means that a node must have joined, or be deleted, before the next is launched.
	OneAtATime bool
	// Why is the reason, for people.
	Why string
}

// Gate returns what the NodePool may do now.
func (b Breaker) Gate(now time.Time) Gate {
	switch {
	case b.Tries == 0:
		return Gate{}
	case now.Before(b.Until):
		return Gate{Held: true, Why: b.Message()}
	}
	return Gate{OneAtATime: true, Why: b.Message()}
}

// Message returns what the condition of a NodePool whose nodes do not join says.
func (b Breaker) Message() string {
	if b.Written != "" {
		return b.Written
	}
	if b.Tries == 0 {
		return fmt.Sprintf("not all of the last %s joined", catalog.CountText(len(b.Nodes), "node"))
	}
	text := "its nodes do not join"
	if b.Tries > 1 {
		text += fmt.Sprintf(", %d tries in a row", b.Tries)
	}
	if b.Why != "" {
		text += ": the last: " + b.Why
	}
	text += "; one node at a time is tried"
	if b.Until.IsZero() {
		return text
	}
	return text + " from " + b.Until.UTC().Format(time.RFC3339) + " on"
}
