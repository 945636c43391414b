package aws

import (
	"slices"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// mark is the memory of a refusal: of an offering or of several, or of a subnet without free addresses.
type mark struct {
	ec2error.Refusal
	// until is when it is tried again; text is EC2's.
	until time.Time
	text  string
	// over means that until has passed. The mark is kept for a while: the next refusal of the same code continues it.
	over bool
}

// holds reports whether the mark keeps something from being tried.
func (m mark) holds(now time.Time) bool { return m.until.After(now) }

// again returns the mark after one more refusal.
func (m mark) again(code ec2error.Code, text string, until, now time.Time) mark {
	if m.Code != code {
		m = mark{Refusal: ec2error.Refusal{Code: code, Since: now}}
	}
	if !m.holds(now) || m.Attempts == 0 {
		m.Attempts++ // Several failures at once are one attempt.
	}
	m.until, m.text, m.over = until, text, false
	return m
}

// longest returns the mark that ends last; zero if all are.
func longest(marks ...mark) mark {
	return slices.MaxFunc(marks, func(a, b mark) int { return a.until.Compare(b.until) })
}

// expireMarks ends the marks whose time has passed, and drops those that ended longer than keep ago.
func expireMarks[K comparable](marks map[K]mark, keep time.Duration, now time.Time) (next time.Time, ended bool) {
	for k, m := range marks {
		switch {
		case m.holds(now):
			if next.IsZero() || m.until.Before(next) {
				next = m.until
			}
		case !m.over:
			m.over, ended = true, true
			marks[k] = m
		case now.After(m.until.Add(keep)):
			delete(marks, k)
		}
	}
	return next, ended
}

// earlier returns the earlier of two moments. The zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
