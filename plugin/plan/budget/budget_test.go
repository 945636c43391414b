package budget_test

import (
	"context"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/plan/budget"
)

func TestSpend(t *testing.T) {
	b := budget.New(t.Context(), 10)
	if !b.Spend(9) || b.Spent() {
		t.Error("9 of 10 units spend the budget")
	}
	if b.Spend(1) || !b.Spent() {
		t.Error("10 of 10 units do not spend the budget")
	}
	if b.Cancelled() {
		t.Error("a spent budget counts as cancelled")
	}
	if budget.New(t.Context(), 0).Spend(0) {
		t.Error("a budget of nothing is not spent")
	}
}

// A child never has more than its parent, and what it draws the parent has no more.
func TestSub(t *testing.T) {
	b := budget.New(t.Context(), 100)
	half := b.Part(0.5)
	if !half.Spend(49) || half.Spend(1) {
		t.Error("half of 100 units are not 50")
	}
	if !b.Spend(49) || b.Spend(1) {
		t.Error("what a child draws is not drawn from its parent")
	}
	if wide := b.Sub(1000); wide.Spend(1) || !wide.Spent() {
		t.Error("a child has more than its parent")
	}
}

// However much is left, a context that ends is obeyed after some thousand units.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := budget.New(ctx, 1<<40)
	child := b.Sub(1 << 39)
	if !child.Spend(1_000_000) {
		t.Error("the budget is spent before its context ends")
	}
	cancel()
	for units := 0; child.Spend(1); units++ {
		if units > 10_000 {
			t.Fatal("10,000 units were spent after the context ended")
		}
	}
	if !child.Spent() || !child.Cancelled() || !budget.New(ctx, 10).Spent() {
		t.Error("a budget whose context has ended is not spent")
	}
}

// A nil budget has no end.
func TestNil(t *testing.T) {
	var b *budget.Budget
	if !b.Spend(1<<40) || b.Spent() || b.Cancelled() || b.Part(0.5) != nil || b.Sub(1).Spend(1) {
		t.Error("a nil budget ends, or its part does not")
	}
}
