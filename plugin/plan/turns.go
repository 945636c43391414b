package plan

import "slices"

// inTurn says that the parts of the unit may come to a new node one after the other: each finds there already whom its affinity
// asks for, or needs nobody.
func (m *model) inTurn(u *unit, at lookup) bool {
	var came []part
	for range u.parts {
		before := len(came)
		for _, p := range u.parts {
			if !slices.Contains(came, p) && m.mayCome(p, came, at) {
				came = append(came, p)
			}
		}
		if len(came) == before {
			break
		}
	}
	return len(came) == len(u.parts)
}

// mayCome is permits on a new node where some are already.
func (m *model) mayCome(p part, came []part, at lookup) bool {
	for _, i := range m.concerns[p.class].binding {
		r := &m.rules[i]
		if r.kind == attended || r.owner != p.class && (r.kind != antiAffinity || !r.classes.has(p.class)) {
			continue
		}
		if r.kind == affinity && slices.ContainsFunc(came, func(q part) bool { return r.classes.has(q.class) }) {
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
