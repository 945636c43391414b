package binpack

import (
	"math/rand/v2"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

func TestTransposed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range [][2]int{{1, 1}, {64, 64}, {3, 130}, {200, 65}, {129, 1}} {
		sets := make([]bitset.Set, size[0])
		for i := range sets {
			sets[i] = bitset.New(size[1])
			for j := range size[1] {
				if rng.IntN(3) == 0 {
					sets[i].Add(j)
				}
			}
		}
		for j, of := range transposed(sets, size[1]) {
			for i := range sets {
				if of.Has(i) != sets[i].Has(j) {
					t.Fatalf("%v: element %d of set %d: %t, transposed %t", size, j, i, sets[i].Has(j), of.Has(i))
				}
			}
		}
	}
}
