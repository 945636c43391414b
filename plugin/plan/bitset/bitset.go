// Package bitset has sets of small integers, such as indices of offers and classes, as bits of machine words.
package bitset

import (
	"math/bits"
	"slices"
)

// Set is a set of integers from 0 to below the size that New was given. Sets that are combined have the same size. The
// nil Set is empty; nothing can be asked of it or added to it but whether it is empty.
type Set []uint64

// New returns an empty set for the integers from 0 to n-1.
func New(n int) Set { return make(Set, (n+63)/64) }

// Has reports whether i is in the set.
func (s Set) Has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

// Add puts i into the set.
func (s Set) Add(i int) { s[i>>6] |= 1 << (i & 63) }

// Remove takes i out of the set.
func (s Set) Remove(i int) { s[i>>6] &^= 1 << (i & 63) }

// Clone returns a copy.
func (s Set) Clone() Set { return slices.Clone(s) }

// Intersect removes what is not in o.
func (s Set) Intersect(o Set) {
	for i := range s {
		s[i] &= o[i]
	}
}

// Union adds what is in o.
func (s Set) Union(o Set) {
	for i := range s {
		s[i] |= o[i]
	}
}

// Meets reports whether any of the set is in o.
func (s Set) Meets(o Set) bool {
	for i := range s {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// Within reports whether all of the set is in o.
func (s Set) Within(o Set) bool {
	for i, w := range s {
		if w&^o[i] != 0 {
			return false
		}
	}
	return true
}

// Empty reports whether nothing is in the set.
func (s Set) Empty() bool {
	return !slices.ContainsFunc(s, func(w uint64) bool { return w != 0 })
}

// Each calls do for each integer in the set, in rising order.
func (s Set) Each(do func(i int)) {
	for w, word := range s {
		for ; word != 0; word &= word - 1 {
			do(w<<6 + bits.TrailingZeros64(word))
		}
	}
}
