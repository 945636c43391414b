package bitset_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// Sets of more than one word agree with lists of truth values.
func TestSetsAgreeWithLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + rng.IntN(200)
		a, inA := random(rng, n)
		b, inB := random(rng, n)
		both, either := a.Clone(), a.Clone()
		both.Intersect(b)
		either.Union(b)
		inBoth, inEither, within := make([]bool, n), make([]bool, n), true
		for i := range n {
			inBoth[i], inEither[i], within = inA[i] && inB[i], inA[i] || inB[i], within && (!inA[i] || inB[i])
		}
		check(t, a, inA)
		check(t, both, inBoth)
		check(t, either, inEither)
		if meets := slices.Contains(inBoth, true); a.Meets(b) != meets || a.Within(b) != within {
			t.Fatalf("of %d: Meets %t, want %t; Within %t, want %t", n, a.Meets(b), meets, a.Within(b), within)
		}
	}
}

// random returns a set of some integers below n, and which they are.
func random(rng *rand.Rand, n int) (bitset.Set, []bool) {
	s, in := bitset.New(n), make([]bool, n)
	for range rng.IntN(2 * n) {
		i := rng.IntN(n)
		if in[i] = rng.IntN(4) > 0; in[i] {
			s.Add(i)
		} else {
			s.Remove(i)
		}
	}
	return s, in
}

// check compares what the set has with what is wanted.
func check(t *testing.T, s bitset.Set, want []bool) {
	t.Helper()
	var wanted, got []int
	for i, in := range want {
		if s.Has(i) != in {
			t.Fatalf("Has(%d) is %t of %v", i, s.Has(i), s)
		}
		if in {
			wanted = append(wanted, i)
		}
	}
	s.Each(func(i int) { got = append(got, i) })
	if !slices.Equal(got, wanted) || s.Empty() != (len(wanted) == 0) {
		t.Fatalf("Each gave %v, want %v; Empty %t", got, wanted, s.Empty())
	}
}
