package relations

import "slices"

// concern is the rules that concern a class.
type concern struct {
	// owned are its rules by index, outranking the spreads of more important pods over domains that count its own.
	owned, outranking []int
	// topologies count its pods.
	topologies []*topologyCounts
	// counts are the spreads over domains that count its pods, avoids the anti-affinity that matches them, keeps those of both that it
	// owns: alike ones are one, with the owners of all.
	counts, avoids, keeps []*Rule
	// keys are the label keys, hostname apart, that matter for where its pods go: by its own rules or by those that
	// count them. Sorted.
	keys []string
}

// upsets reports whether n pods at the place leave a spread of other pods more uneven than those require. The scheduler allows that, but
// those others would then stand where it would not place them again.
func (c *concern) upsets(n int, at Lookup) bool {
	return slices.ContainsFunc(c.counts, func(r *Rule) bool {
		v, ok := at(r.key)
		return ok && !r.staysEven(v, n)
	})
}

// avoided reports whether pods whose anti-affinity matches the class are at the place already; on a new node (fresh) those by hostname are
// the packing's business.
func (c *concern) avoided(at Lookup, fresh bool) bool {
	return slices.ContainsFunc(c.avoids, func(r *Rule) bool {
		v, ok := at(r.key)
		return ok && r.owners[v] > 0 && (!fresh || !isHost(r.key))
	})
}
