package binpack

import "github.com/slipway-k8s/slipway/plugin/plan/budget"

// meter counts steps of work, which bound the loops of one packing, and draws them from the budget of the whole question.
// The same input does the same work.
type meter struct {
	done   int
	budget *budget.Budget
}

func (m *meter) add(n int) {
	m.done += n
	m.budget.Spend(n)
}

// atLeast raises the count: a step that did less than this counts as much.
func (m *meter) atLeast(done int) {
	if m.done < done {
		m.add(done - m.done)
	}
}

// within reports whether fewer steps than until were done and the budget is not spent.
func (m *meter) within(until int) bool { return m.done < until && !m.budget.Spent() }

// spent reports whether the budget is spent: every loop ends with its best answer.
func (m *meter) spent() bool { return m.budget.Spent() }
