// Package roll replaces nodes by equal new ones: nodes that have drifted, and nodes in the soft window before they expire.
//
// A pass hands all candidates to the executor of moves, as many as the budgets allow: empty nodes first, then nodes that are
// not Ready, then the others by the time since when they are due. A candidate may be blocked by do-not-disrupt or a
// PodDisruptionBudget. An Event states the reason, and the pass skips the node. A drifted node that was never initialized goes where it is empty.
//
// DueOf, Order and Blocked are pure functions. Roller is the loop around them.
//
// Goroutines: the one that calls Run. Its effects run under leadership.
package roll
