package view

import "time"

// Consolidation is what was decided last about removing nodes to save money.
type Consolidation struct {
	// At is when it was decided; zero if nothing was decided yet. Of equal decisions within half a minute it is the time of the first.
	At time.Time `json:"at,omitzero"`
	// Moves are the sets of nodes that are worth removing, the best first.
	Moves []Move `json:"moves"`
	// Stays are the other nodes, by name, and why each stays.
	Stays []Stay `json:"stays"`
}

// Move is a set of nodes that go together.
type Move struct {
	// Nodes that go, by name.
	Nodes []string `json:"nodes"`
	// Replacements are launched for their pods, such as "m7g.large spot"; empty where these fit elsewhere.
	Replacements []string `json:"replacements,omitempty"`
	// Saving in USD per hour.
	Saving float64 `json:"savedUSDPerHour"`
	// Evictions is how many pods have to move.
	Evictions int `json:"evictions"`
	// Begun means that the move has begun.
	Begun bool `json:"begun"`
	// Waits is why it has not, such as a disruption budget.
	Waits string `json:"waits,omitempty"`
}

// Stay is a node that stays.
type Stay struct {
	// Node is its name.
	Node string `json:"node"`
	// Why it stays.
	Why string `json:"why"`
}
