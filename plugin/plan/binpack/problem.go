package binpack

import (
	"cmp"
	"math"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// Problem is item types to pack into bins for as few dollars as possible.
type Problem struct {
	Items []ItemType
	// Bins are the candidates: any number of each may be bought.
	Bins []Bin
	// Caps limit what the items of one bin may be together.
	Caps []Cap
	// Room is what the limits of each pool leave, in the order of its limits.
	Room [][]int64
	// Most is the most of dimension 0 that one bin may hold; 0 for any.
	Most int64
}

// ItemType is a number of items that are the same to packing.
type ItemType struct {
	// Need is what one item takes of each dimension.
	Need Vec
	// Count is how many items there are, Pods how much it counts to pack one of them.
	Count, Pods int
	// Fits are the candidates that take one item when they are empty.
	Fits bitset.Set
	// Memberships are the caps that concern the type, in their order.
	Memberships []Membership
	// Choices are what an item asks of a bin of each pool; nil for nothing in any pool.
	Choices [][]Choice
}

// Membership is what an item type is to a cap.
type Membership struct {
	// Cap is its index.
	Cap int
	// Weight is what one item adds to the weight of a bin.
	Weight int
	// Subject says that a bin with such an item has to keep the cap.
	Subject bool
}

// Cap limits the weight of a bin that holds an item that is subject to it.
type Cap struct{ Limit int }

// Choice is a value of a key: a bin has one value for each key, so that items that ask for different ones cannot share it.
type Choice struct{ Key, Value int }

// Bin is a candidate to buy.
type Bin struct {
	// Pool is the index of the pool whose limits it counts against.
	Pool int
	// Group is what candidates next to each other have in common that differ in little but the price.
	Group int
	// Price is USD per hour.
	Price float64
	// Free is what it has of each dimension.
	Free Vec
	// Usage is what it counts against each limit of its pool.
	Usage []int64
}

// Item is N of an item type.
type Item struct{ Type, N int }

func compareItems(a, b Item) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.N, b.N)) }

// problem is a Problem without the dimensions that no item needs and the candidates that are never worth buying.
type problem struct {
	// room is what the limits of each pool leave, in the order of its limits.
	room [][]int64
	// dims is how many dimensions there are: those that any item needs.
	dims  int
	types []itemType
	caps  []binCap
	// bins are the candidates worth considering, the cheapest first.
	bins []binType
}

// itemType is an ItemType.
type itemType struct {
	need  Vec
	count int
	// pods of one item.
	pods int
	// takes are the bin types that take one item when they are empty.
	takes bitset.Set
	// caps are those that concern the type.
	caps []int
	// choices as of its item type.
	choices [][]Choice
}

// binCap limits the weight of a bin that holds a subject, both by item type.
type binCap struct {
	subject []bool
	weight  []int
	limit   int
}

func newProblem(in *Problem) *problem {
	asked := asked(in)
	p := &problem{room: in.Room, dims: len(asked)}
	for i := range in.Items {
		it := &in.Items[i]
		p.types = append(p.types, itemType{need: compact(it.Need, asked), count: it.Count, pods: it.Pods, choices: it.Choices})
	}
	for _, c := range in.Caps {
		p.caps = append(p.caps, binCap{subject: make([]bool, len(p.types)), weight: make([]int, len(p.types)), limit: c.Limit})
	}
	for ti := range in.Items {
		for _, x := range in.Items[ti].Memberships {
			p.types[ti].caps = append(p.types[ti].caps, x.Cap)
			p.caps[x.Cap].subject[ti], p.caps[x.Cap].weight[ti] = x.Subject, x.Weight
		}
	}
	p.findBins(in, asked)
	return p
}

// asked returns the dimensions that any item with a candidate needs, and the first.
func asked(in *Problem) []int {
	out := []int{0}
	if len(in.Items) == 0 {
		return out
	}
	for d := 1; d < len(in.Items[0].Need); d++ {
		if slices.ContainsFunc(in.Items, func(x ItemType) bool { return x.Count > 0 && x.Need[d] > 0 && !x.Fits.Empty() }) {
			out = append(out, d)
		}
	}
	return out
}

// compact returns the asked dimensions of v.
func compact(v Vec, asked []int) Vec {
	out := make(Vec, len(asked))
	for i, d := range asked {
		out[i] = v[d]
	}
	return out
}

// more returns how many of an item type may join the items in a bin of the pool, by caps and choices, size apart.
func (p *problem) more(items []Item, ti, pool int) int {
	best := math.MaxInt32
	for _, ci := range p.types[ti].caps {
		c := &p.caps[ci]
		subject, weight := c.subject[ti], 0
		for _, it := range items {
			subject = subject || c.subject[it.Type]
			weight += c.weight[it.Type] * it.N
		}
		switch w := c.weight[ti]; {
		case !subject:
		case weight+w > c.limit:
			return 0
		case w > 0:
			best = min(best, (c.limit-weight)/w)
		}
	}
	if choices := p.types[ti].choices; choices != nil {
		for _, it := range items {
			if other := p.types[it.Type].choices; other != nil && clash(choices[pool], other[pool]) {
				return 0
			}
		}
	}
	return best
}

// clash reports whether no bin has all the choices, each sorted by key.
func clash(a, b []Choice) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Key < b[0].Key:
			a = a[1:]
		case a[0].Key > b[0].Key:
			b = b[1:]
		case a[0].Value != b[0].Value:
			return true
		default:
			a, b = a[1:], b[1:]
		}
	}
	return false
}

// free reports whether no cap and no choice concerns the type: its size alone decides.
func (k *itemType) free() bool { return len(k.caps) == 0 && k.choices == nil }

// sumOf returns what the items need together.
func (p *problem) sumOf(items []Item) Vec {
	sum := make(Vec, p.dims)
	for _, it := range items {
		sum.add(p.types[it.Type].need, int64(it.N))
	}
	return sum
}

func (p *problem) cloneRoom() [][]int64 {
	out := make([][]int64, len(p.room))
	for i := range p.room {
		out[i] = slices.Clone(p.room[i])
	}
	return out
}

func (p *problem) counts() []int {
	out := make([]int, len(p.types))
	for i := range p.types {
		out[i] = p.types[i].count
	}
	return out
}

// sorted returns the sum in the order of size: the order of the parts does not change its last digit.
func sorted(prices []float64) float64 {
	slices.Sort(prices)
	sum := 0.0
	for _, x := range prices {
		sum += x
	}
	return sum
}
