package binpack

import (
	"math"
	"slices"
)

// axis is one dimension of a table: a number of cells of one step each, and how far they are apart in the table.
type axis struct {
	dim    int
	step   int64
	cells  int
	stride int
	// rounded says that needs are not multiples of the step: they are rounded down to it.
	rounded bool
}

// axis returns the dimension with as few cells as the needs of the items allow.
func (k *packer) axis(bi int, list []knapItem, d int) axis {
	x := axis{dim: d, cells: 1}
	for i := range list {
		x.step = gcd(x.step, k.types[list[i].unit].need[d])
	}
	if x.step > 0 {
		x.cells = int(max(k.bins[bi].free[d], 0)/x.step) + 1
	}
	return x
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// of returns how many cells the need takes.
func (x *axis) of(need Vec) int {
	if x.step == 0 {
		return 0
	}
	return int(need[x.dim] / x.step)
}

// times returns how many of the need the table has room for.
func (g *table) times(need Vec) int {
	n := math.MaxInt
	for i := range g.axes {
		if of := g.axes[i].of(need); of > 0 {
			n = min(n, (g.axes[i].cells-1)/of)
		}
	}
	return n
}

// offset returns how far apart two contents are that differ by the need.
func (g *table) offset(need Vec) int {
	sum := 0
	for i := range g.axes {
		sum += g.axes[i].of(need) * g.axes[i].stride
	}
	return sum
}

// setStrides sets how far the cells of each axis are apart.
func (g *table) setStrides() {
	stride := 1
	for i := range slices.Backward(g.axes) {
		g.axes[i].stride = stride
		stride *= g.axes[i].cells
	}
}

// coarsen takes steps so large that no more than most cells are left.
func (x *axis) coarsen(free int64, most int) {
	x.step = free/int64(most-1) + 1
	x.cells, x.rounded = int(free/x.step)+1, true
}
