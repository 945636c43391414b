package binpack

import (
	"encoding/binary"
	"math"
	"slices"
)

// maxRows is the most kinds for which the covering program is solved over patterns; its cost rises with the square. Where
// there are more, rents price them, or similar ones count as one of their mean size.
const maxRows = 160

// rows are the kinds as the covering program sees them.
type rows struct {
	*packer
	// of is the row of each kind, members the kinds of each row, the largest first.
	of      []int
	members [][]int
	// exact says that the kinds of a row need the same.
	exact bool
}

// newRows joins kinds of equal needs, whoever else they tolerate; a limit on their own number per node is kept. Where
// that leaves too many, kinds whose needs differ little are joined as well: with each try, a little more.
func (k *packer) newRows() *rows {
	doors, tight := k.doors(), k.tightCaps()
	if r := k.rentedRows(maxRows); r != nil {
		return r
	}
	for ratio := 1.0; ; ratio = 1.03 + (ratio-1)*1.6 {
		of, n := k.cluster(doors, tight, ratio)
		if n <= maxRows || ratio > 50 {
			return k.rowsOf(of, n, tight, ratio == 1)
		}
	}
}

// rentedRows returns rows that resource prices can value, nil where there are no more than few or too many. A tight cap is one more
// resource of a node, and priced like one.
func (k *packer) rentedRows(few int) *rows {
	tight := k.tightCaps()
	of, n := k.cluster(k.doors(), tight, 1)
	if n <= few || n > maxRented {
		return nil
	}
	r := k.rowsOf(of, n, tight, true)
	r.forRent = true
	return r
}

// doors tells kinds apart by the lanes that are open to them if size does not count.
func (k *packer) doors() []int {
	out := make([]int, len(k.kinds))
	var open []Set
	fits := newSet(len(k.lanes))
	for _, ki := range slices.Backward(k.bySize) { // the smallest first: most lanes hold them
		clear(fits)
		for li := range k.lanes {
			if k.lanes[li].free.times(k.kinds[ki].need) > 0 {
				fits.set(li)
			}
		}
		same := func(o Set) bool {
			for w, x := range k.kinds[ki].takes {
				if x != o[w]&fits[w] {
					return false
				}
			}
			return true
		}
		at := slices.IndexFunc(open, same)
		if at < 0 {
			at = len(open)
			open = append(open, k.kinds[ki].takes)
		}
		out[ki] = at
	}
	return out
}

// tightCaps are the caps that ask for the most nodes: those that limit a kind itself, at least a quarter as hard as the
// one that does it most. The others are kept to where the rows' patterns are filled with kinds.
func (k *packer) tightCaps() []bool {
	nodes, most := make([]float64, len(k.p.caps)), 0.0
	for _, ki := range k.all {
		for _, ci := range k.kinds[ki].caps {
			if c := &k.p.caps[ci]; c.subject[ki] && c.weight[ki] > 0 {
				nodes[ci] += float64(k.kinds[ki].count*c.weight[ki]) / float64(max(c.limit, 1))
				most = max(most, nodes[ci])
			}
		}
	}
	out := make([]bool, len(nodes))
	for ci := range out {
		out[ci] = nodes[ci] > 0 && nodes[ci] >= most/4
	}
	return out
}

// cluster numbers the rows of the kinds.
func (k *packer) cluster(doors []int, tight []bool, ratio float64) ([]int, int) {
	of, index := make([]int, len(k.kinds)), map[string]int{}
	var key []byte
	for _, ki := range k.all {
		kd := &k.kinds[ki]
		key = binary.AppendUvarint(key[:0], uint64(doors[ki]))
		for _, x := range kd.need {
			if ratio > 1 && x > 0 {
				x = int64(math.Log(float64(x)) / math.Log(ratio))
			}
			key = binary.AppendVarint(key, x)
		}
		for _, ci := range kd.caps {
			if c := &k.p.caps[ci]; tight[ci] && c.subject[ki] && c.weight[ki] > 0 {
				key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(ci)), uint64(c.weight[ki]))
			}
		}
		r, ok := index[string(key)]
		if !ok {
			r = len(index)
			index[string(key)] = r
		}
		of[ki] = r
	}
	return of, len(index)
}

// rowsOf makes the packer of the rows. To rows a tight cap is one more resource, of which a node has as much as the
// limit says.
func (k *packer) rowsOf(of []int, n int, tight []bool, exact bool) *rows {
	p := *k.p
	p.kinds, p.caps = make([]kind, n), nil
	p.lanes = slices.Clone(k.lanes)
	dim := make([]int, len(tight))
	for ci, on := range tight {
		if !on {
			continue
		}
		dim[ci] = p.dims
		p.dims++
		for li := range p.lanes {
			p.lanes[li].free = append(slices.Clip(p.lanes[li].free), int64(k.p.caps[ci].limit))
		}
	}
	members, sums := make([][]int, n), make([][]float64, n)
	for _, ki := range k.bySize {
		r, kd := of[ki], &k.kinds[ki]
		row := &p.kinds[r]
		if members[r] == nil {
			row.need, row.takes, sums[r] = make(Vec, p.dims), newSet(len(k.lanes)), make([]float64, len(kd.need))
			for _, ci := range kd.caps {
				if c := &k.p.caps[ci]; tight[ci] && c.subject[ki] {
					row.need[dim[ci]] = int64(c.weight[ki])
				}
			}
		}
		members[r] = append(members[r], ki)
		row.count += kd.count
		row.takes.or(kd.takes)
		for d, x := range kd.need {
			sums[r][d] += float64(x) * float64(kd.count)
		}
	}
	for d := range k.p.dims {
		// In steps that all needs are multiples of.
		step := int64(0)
		for _, ki := range k.all {
			step = gcd(step, k.kinds[ki].need[d])
		}
		step = max(step, 1)
		for r := range p.kinds {
			p.kinds[r].need[d] = step * int64(math.Round(sums[r][d]/float64(p.kinds[r].count)/float64(step)))
		}
	}
	out := &rows{packer: newPacker(&p), of: of, members: members, exact: exact}
	out.proof, out.wantsBound = k.proof, k.wantsBound
	if k.hint != nil {
		out.hint = make([]float64, n)
		for _, ki := range k.all {
			out.hint[of[ki]] += k.hint[ki] * float64(k.kinds[ki].count) / float64(p.kinds[of[ki]].count)
		}
	}
	return out
}

// spread gives the kinds the values of their rows, in proportion to their size.
func (r *rows) spread(k *packer, counts []int, pi []float64) []float64 {
	r.weigh(counts, pi)
	size := func(need Vec) float64 {
		s := 0.0
		for d := range k.scale {
			s += r.scale[d] * float64(need[d])
		}
		return s
	}
	out := make([]float64, len(k.kinds))
	for _, ki := range k.all {
		row := r.of[ki]
		out[ki] = pi[row]
		if mean := size(r.kinds[row].need); mean > 0 && !r.exact {
			out[ki] *= size(k.kinds[ki].need) / mean
		}
	}
	return out
}

// realize fills n nodes of the pattern of rows with kinds that are left, as far as they tolerate each other.
func (r *rows) realize(k *packer, pat pattern, n int, left []int) []box {
	var out []box
	for range n {
		clear(k.sum)
		k.items = k.items[:0]
		for _, it := range pat.items {
			want := it.N
			for i := 0; i < len(r.members[it.Type]) && want > 0; i++ {
				ki := r.members[it.Type][i]
				if left[ki] == 0 || !k.kinds[ki].takes.has(pat.lane) {
					continue
				}
				if c := k.beside(pat.lane, ki, min(want, left[ki])); c > 0 {
					k.items = addTo(k.items, Item{ki, c})
					k.sum.add(k.kinds[ki].need, int64(c))
					left[ki] -= c
					want -= c
				}
			}
			k.work += len(r.members[it.Type])
			// Used up: the largest first, so that those left at the head are none.
			r.drop(it.Type, left)
		}
		if len(k.items) == 0 {
			break
		}
		out = append(out, box{lane: pat.lane, items: slices.Clone(k.items), sum: k.sum.clone()})
	}
	return out
}

// drop takes the members off the row's list of which none are left, from the front.
func (r *rows) drop(row int, left []int) {
	for len(r.members[row]) > 0 && left[r.members[row][0]] == 0 {
		r.members[row] = r.members[row][1:]
	}
}
