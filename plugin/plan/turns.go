package plan

// inTurn says that the parts of the unit may come to a new node one after the other: each finds there already whom its affinity
// asks for, or needs nobody.
func (m *model) inTurn(u *unit, at lookup) bool {
	came := newBits(len(m.classes))
	n := 0
	for range u.parts {
		before := n
		for _, p := range u.parts {
			if !came.has(p.class) && m.mayCome(p, came, at) {
				came.set(p.class)
				n++
			}
		}
		if n == before {
			break
		}
	}
	return n == len(u.parts)
}

// mayCome is permits on a new node where some are already.
func (m *model) mayCome(p part, came bits, at lookup) bool {
	for _, i := range m.concerns[p.class].binding {
		r := &m.rules[i]
		if r.kind == attended || r.owner != p.class && (r.kind != antiAffinity || !r.classes.has(p.class)) {
			continue
		}
		if r.kind == affinity && r.classes.meets(came) {
			continue
		}
		v, ok := at(r.key)
		switch {
		case !isHost(r.key):
			if !r.allows(p, v, ok) {
				return false
			}
		case r.kind == affinity:
			if r.total > 0 || !r.classes.has(p.class) {
				return false
			}
		}
	}
	return true
}
