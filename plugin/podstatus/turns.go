package podstatus

// turns are the UIDs of pods that wait to be written, by namespace. Namespaces take turns, so that the pods of one tenant, however many,
// delay those of another by one write each. The zero value is empty. It is not safe for concurrent use.
type turns struct {
	// waiting has the pods of each namespace, in the order of their first notes; namespaces are those with pods, the next one first.
	waiting    map[string][]string
	namespaces []string
}

// add appends a pod that does not wait yet.
func (t *turns) add(namespace, uid string) {
	if t.waiting == nil {
		t.waiting = map[string][]string{}
	}
	if len(t.waiting[namespace]) == 0 {
		t.namespaces = append(t.namespaces, namespace)
	}
	t.waiting[namespace] = append(t.waiting[namespace], uid)
}

// next removes the first pod of the next namespace, which then waits for all others; ok is false if no pod waits.
func (t *turns) next() (uid string, ok bool) {
	if len(t.namespaces) == 0 {
		return "", false
	}
	namespace := t.namespaces[0]
	t.namespaces = t.namespaces[1:]
	pods := t.waiting[namespace]
	if len(pods) == 1 {
		delete(t.waiting, namespace)
	} else {
		t.waiting[namespace] = pods[1:]
		t.namespaces = append(t.namespaces, namespace)
	}
	return pods[0], true
}
