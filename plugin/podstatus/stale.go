package podstatus

// stale are the notes that refresh conditions, until they are written or a newer note of their pod comes. The zero value is empty. It is
// not safe for concurrent use.
type stale struct {
	notes map[string]Note
	order turns
	// queued are the pods in order; those of them without a note were written meanwhile.
	queued map[string]bool
}

// add keeps the note. It replaces an older one of the pod.
func (s *stale) add(n Note) {
	if s.notes == nil {
		s.notes, s.queued = map[string]Note{}, map[string]bool{}
	}
	s.notes[n.Pod.UID] = n
	if !s.queued[n.Pod.UID] {
		s.queued[n.Pod.UID] = true
		s.order.add(n.Pod.Namespace, n.Pod.UID)
	}
}

// drop forgets the note of the pod.
func (s *stale) drop(uid string) { delete(s.notes, uid) }

// any reports whether there is a note.
func (s *stale) any() bool { return len(s.notes) > 0 }

// next removes a note and returns it. There must be one.
func (s *stale) next() Note {
	for {
		uid, ok := s.order.next()
		if !ok {
			return Note{}
		}
		delete(s.queued, uid)
		if n, ok := s.notes[uid]; ok {
			delete(s.notes, uid)
			return n
		}
	}
}
