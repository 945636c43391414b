// Package budget is the one ledger of disruption budgets: whatever disrupts nodes without being asked to (empty, underutilized,
// drifted, soon expired) reserves a place for each node first. The Ledger looks at the cluster and answers under one lock, so that
// several decisions of the same moment never take more nodes together than the budgets allow.
//
// What the budgets allow is computed by package disruption. The Ledger holds what was reserved and does not show in the cache yet.
// The package imports no clients: an Observe function shows it the cluster.
//
// It has no goroutines.
package budget
