package podstatus

import (
	"time"
)

const (
	// firstRetry is how long a note waits whose write failed: the informer has another writer's change by then. It doubles up to lastRetry.
	firstRetry, lastRetry = 100 * time.Millisecond, 30 * time.Second
	// mostTries bounds the writes of a note: the last one is three minutes after the first. kube-scheduler tries pods again every five.
	mostTries = 14
)

// retries are the notes whose write failed, until they are due or a newer note of their pod comes. The zero value is empty. It is not safe for concurrent use.
type retries struct {
	notes map[string]retry
}

type retry struct {
	note Note
	at   time.Time
}

// add keeps the note until its next try, and reports whether it has one.
func (r *retries) add(n Note, now time.Time) bool {
	if n.tries++; n.tries >= mostTries {
		return false
	}
	if r.notes == nil {
		r.notes = map[string]retry{}
	}
	r.notes[n.Pod.UID] = retry{note: n, at: now.Add(min(firstRetry<<(n.tries-1), lastRetry))}
	return true
}

// drop forgets the note of the pod.
func (r *retries) drop(uid string) { delete(r.notes, uid) }

// due removes the notes that are due and returns them, and when the next one is; at the latest by the time that is given.
func (r *retries) due(now, latest time.Time) (due []Note, next time.Time) {
	next = latest
	for uid, waiting := range r.notes {
		switch {
		case !waiting.at.After(now):
			due = append(due, waiting.note)
			delete(r.notes, uid)
		case waiting.at.Before(next):
			next = waiting.at
		}
	}
	return due, next
}
