package plan

import (
	"encoding/binary"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// form is what claims have in common whose nodes are expected to be of one shape and may be launched in one span: hundreds of
// claims of a batch differ in nothing but their pods. It must not be changed.
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
func (cf *claimForms) form(sp span, expected *offer, slack []int64) *form {
	if len(slack) > 0 || len(cf.supplies.left) > 0 {
		f := &form{}
		f.alts, f.fine = cf.alternatives(sp, expected, slack)
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
	f, ok := cf.forms[string(key)]
	if !ok {
		f = &form{}
		f.alts, f.fine = cf.alternatives(sp, expected, slack)
		if cf.forms == nil {
			cf.forms = map[string]*form{}
		}
		cf.forms[string(key)] = f
	}
	return f
}

// write enters the alternatives and requirements of the form into the claim. Claims may share the lists of names and values.
func (cf *claimForms) write(c *Claim, f *form, sp span, pool *pool, open catalog.Requirements) {
	if f.names == nil {
		for _, ti := range f.alts {
			f.names = append(f.names, cf.market.types[ti].Name)
		}
	}
	c.Alternatives = slices.Clip(f.names)
	if len(open) > 0 {
		c.Requirements = cf.claimRequirements(pool, f.alts, sp, open)
		return
	}
	if f.requirements == nil {
		f.requirements = cf.claimRequirements(pool, f.alts, sp, open)
	}
	c.Requirements = slices.Clone(f.requirements)
}

// claimForms writes what claims ask for: the requirements and alternatives that the pods of a node and the minValues of its NodePool leave.
type claimForms struct {
	in       *Input
	market   *market
	supplies *supplies
	// forms are what claims have in common.
	forms map[string]*form
}
