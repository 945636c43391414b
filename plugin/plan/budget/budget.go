// Package budget bounds the work of one question. A Budget is made once from a context and a number of work units, and is passed
// to every loop that can be long. The loop draws on it and returns its best valid answer when it is spent. Units count steps of
// work, not time, so that the same input gives the same answer unless the context ends. A Budget is for one goroutine.
package budget

import "context"

// checkEvery is the number of units between two checks of the context: some tenths of a millisecond.
const checkEvery = 2048

// Budget holds the number of work units that may still be done. A nil *Budget never ends.
type Budget struct {
	done      <-chan struct{}
	left      int
	unchecked int
	cancelled bool
	parent    *Budget
}

// New returns a budget of that many units, which also ends with the context.
func New(ctx context.Context, units int) *Budget {
	b := &Budget{done: ctx.Done(), left: units}
	b.check()
	return b
}

// Sub returns a budget of at most that many units, which also draws on b.
func (b *Budget) Sub(units int) *Budget {
	return &Budget{left: units, parent: b}
}

// Part returns a budget of a share of what is left of b, 0.5 for half of it, which also draws on b.
func (b *Budget) Part(share float64) *Budget {
	if b == nil {
		return nil
	}
	return b.Sub(int(share * float64(max(b.left, 0))))
}

// Spend takes n units. It returns false once the budget, or one that it draws on, is spent or the context has ended.
func (b *Budget) Spend(n int) bool {
	within := true
	for ; b != nil; b = b.parent {
		b.left = max(b.left-n, -1)
		b.unchecked += n
		if b.done != nil && b.unchecked >= checkEvery {
			b.check()
		}
		within = within && b.left > 0 && !b.cancelled
	}
	return within
}

// Spent reports whether nothing is left of the budget, or of one that it draws on, or whether the context has ended.
func (b *Budget) Spent() bool {
	for ; b != nil; b = b.parent {
		if b.left <= 0 || b.cancelled {
			return true
		}
	}
	return false
}

// Cancelled reports whether the context has ended: no answer is wanted any more. It checks the context in each call.
func (b *Budget) Cancelled() bool {
	for ; b != nil; b = b.parent {
		if b.check(); b.cancelled {
			return true
		}
	}
	return false
}

func (b *Budget) check() {
	b.unchecked = 0
	select {
	case <-b.done:
		b.cancelled = true
	default:
	}
}
