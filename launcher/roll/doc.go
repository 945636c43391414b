// Package roll replaces nodes that are to be exchanged for new ones of the same kind: those that have drifted, and those in the soft
// window before they expire. All that may go are handed to the executor of moves in one pass, as many at a time as the budgets
// allow: empty ones first, then those that are not Ready, then in the order in which their time came. What is in the way of a node
// (do-not-disrupt, a PodDisruptionBudget) is told, and the node passed over, not waited for.
//
// Due, Order and Blocked are pure functions; Roller is the loop around them.
//
// Goroutines: the one that calls Run. Its effects run under leadership.
package roll
