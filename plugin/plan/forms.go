package plan

import (
	"encoding/binary"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// form is what claims have in common whose nodes are expected to be of one shape and may be launched in one span: hundreds of
// claims of a batch differ in nothing but their pods. Nobody changes it.
type form struct {
	// alts are the instance types, fine says that they keep the pool's minValues.
	alts []int
	fine bool
	// names are those of alts, requirements the claim's if the pods leave no label open; nil before they are asked for.
	names        []string
	requirements []catalog.Requirement
}

// form finds the alternatives of a claim, or remembers them where no limit and no reservation makes them differ from one claim to the
// next.
func (m *model) form(sp span, expected *offer, slack []int64) *form {
	if len(slack) > 0 || len(m.reserved) > 0 {
		f := &form{}
		f.alts, f.fine = m.alternatives(sp, expected, slack)
		return f
	}
	key := binary.AppendUvarint(make([]byte, 0, 8*len(sp.shared)+64), uint64(expected.shape))
	for _, list := range [][]string{sp.zones, sp.capacity} {
		for _, v := range list {
			key = append(append(key, v...), 0)
		}
		key = append(key, 0)
	}
	for _, w := range sp.shared {
		key = binary.LittleEndian.AppendUint64(key, w)
	}
	f, ok := m.forms[string(key)]
	if !ok {
		f = &form{}
		f.alts, f.fine = m.alternatives(sp, expected, slack)
		if m.forms == nil {
			m.forms = map[string]*form{}
		}
		m.forms[string(key)] = f
	}
	return f
}

// write enters the alternatives and requirements of the form into the claim. Claims may share the lists of names and values.
func (m *model) write(c *Claim, f *form, sp span, pool *pool, open catalog.Requirements) {
	if f.names == nil {
		for _, ti := range f.alts {
			f.names = append(f.names, m.market.types[ti].Name)
		}
	}
	c.Alternatives = slices.Clip(f.names)
	if len(open) > 0 {
		c.Requirements = m.claimRequirements(pool, f.alts, sp, open)
		return
	}
	if f.requirements == nil {
		f.requirements = m.claimRequirements(pool, f.alts, sp, open)
	}
	c.Requirements = slices.Clone(f.requirements)
}
