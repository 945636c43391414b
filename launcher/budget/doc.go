// Package budget is the one ledger of disruption budgets: how many nodes of a NodePool may be taken away now, for which reason.
// Everybody who takes nodes away of his own accord (empty, underutilized, drifted, soon expired) asks the Ledger for a place
// first, and the Ledger looks and answers under one lock, so that several who decide at the same moment never take more together
// than the budgets allow.
//
// Allowed and Count are pure functions; the Ledger holds what was promised and does not show in the cache yet. The package imports
// no clients: what the cluster looks like it is told by an Observe function.
//
// It has no goroutines.
package budget
