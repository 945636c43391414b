package plan

import "slices"

// beamWidth is how many half-filled nodes a beam search follows where it looks for a good one.
const beamWidth = 24

// half is a half-filled node of a beam search: n of the ware at hand on top of its parent.
type half struct {
	parent, n   int
	value, left float64
	// most is an upper bound of what the node can become.
	most float64
}

// beam is a search for the most valuable content of one node: ware by ware, the most value per size first, it follows
// the halves that may become worth most.
type beam struct {
	k    *packer
	lane int
	list []ware
	// proof: every number of a ware is tried, and company is ignored, so that upper holds.
	proof bool
	width int
	// layers of halves, and the sums of the last one and the next, flat.
	layers     [][]half
	sums, next vec
	best       float64
	at         [2]int
	// upper is an upper bound of the value of the halves that were not followed.
	upper float64
	seen  map[uint64]int
}

// beam looks for a content of the lane worth more than out's.
func (k *packer) beam(li int, list []ware, out *pattern) {
	b := &beam{k: k, lane: li, list: list, width: beamWidth, best: out.value}
	if b.run(); b.at[0] > 0 {
		out.value, out.items = b.best, slices.Clone(b.path(b.at[0], b.at[1]))
	}
}

// proven is an upper bound of the value of a node, company apart, that is no less than floor.
func (k *packer) proven(li int, list []ware, floor float64, width int) float64 {
	b := &beam{k: k, lane: li, list: list, width: width, best: floor, proof: true, seen: map[uint64]int{}}
	b.run()
	return max(b.best, b.upper) * (1 + 1e-9)
}

func (b *beam) run() {
	d := len(b.k.sum)
	b.layers = [][]half{{{parent: -1, left: 1}}}
	b.sums = make(vec, d)
	for i := range b.list {
		next := b.extend(i)
		if len(next) == 0 {
			break
		}
		// The sums of those that are followed.
		need := b.k.kinds[b.list[i].unit].need
		b.next = b.next[:0]
		for j := range next {
			x := &next[j]
			b.next = append(b.next, b.sums[x.parent*d:(x.parent+1)*d]...)
			b.next[j*d:(j+1)*d:(j+1)*d].add(need, int64(x.n))
			if x.value > b.best*(1+1e-9) {
				b.best, b.at = x.value, [2]int{i + 1, j}
			}
		}
		if b.proof {
			next = b.merge(next)
		}
		b.sums, b.next = b.next, b.sums
		b.layers = append(b.layers, next)
		b.k.work += 3 * len(next)
	}
}

// extend adds numbers of the ware to the halves and keeps those that may become worth most.
func (b *beam) extend(i int) []half {
	d, w, free := len(b.k.sum), &b.list[i], b.k.lanes[b.lane].free
	kd := &b.k.kinds[w.unit]
	var next []half
	for hi := range b.layers[i] {
		h := &b.layers[i][hi]
		most := min(w.most, timesBeside(free, b.sums[hi*d:(hi+1)*d], kd.need))
		if most > 0 && !b.proof && !kd.free() {
			most = min(most, b.k.p.more(b.path(i, hi), w.unit, b.k.lanes[b.lane].pool))
		}
		for n := most; n >= 0; n = b.fewer(n, most) {
			x := half{parent: hi, n: n, value: h.value + float64(n)*w.value, left: h.left - float64(n)*w.size}
			if x.most = x.value + cut(b.list[i+1:], x.left); x.most > b.best*(1+1e-9) {
				next = append(next, x)
			}
		}
	}
	b.k.work += 4 * len(b.layers[i])
	if len(next) <= b.width {
		return next
	}
	slices.SortFunc(next, func(x, y half) int {
		switch {
		case x.most > y.most:
			return -1
		case x.most < y.most:
			return 1
		case x.parent != y.parent:
			return x.parent - y.parent
		}
		return y.n - x.n
	})
	b.upper = max(b.upper, next[b.width].most)
	return next[:b.width]
}

// fewer is the next number to try: every one, or the largest four, then half of it.
func (b *beam) fewer(n, most int) int {
	if b.proof || n == 0 || most-n < 3 {
		return n - 1
	}
	return n / 2
}

// merge keeps the most valuable of the halves with equal sums.
func (b *beam) merge(next []half) []half {
	d := len(b.k.sum)
	clear(b.seen)
	out := next[:0]
	for j := range next {
		sum := b.next[j*d : (j+1)*d]
		key := uint64(14695981039346656037)
		for _, x := range sum {
			key = (key ^ uint64(x)) * 1099511628211
			key ^= key >> 29
		}
		if at, ok := b.seen[key]; ok && slices.Equal(sum, b.next[at*d:(at+1)*d]) {
			if next[j].value > out[at].value {
				out[at] = next[j]
			}
			continue
		}
		b.seen[key] = len(out)
		copy(b.next[len(out)*d:], sum)
		out = append(out, next[j])
	}
	b.next = b.next[:len(out)*d]
	return out
}

// path is the content of a half.
func (b *beam) path(layer, j int) []item {
	k := b.k
	k.items = k.items[:0]
	for ; layer > 0; layer-- {
		h := &b.layers[layer][j]
		if h.n > 0 {
			k.items = append(k.items, item{b.list[layer-1].unit, h.n})
		}
		j = h.parent
	}
	return k.items
}
