// Package budget is the ledger of disruption budgets: every voluntary disruption (empty, underutilized, drifted, soon expired) reserves a
// place for each node first. The Ledger reads the cluster's state and answers under one lock, so that concurrent decisions never disrupt
// more nodes together than the budgets allow.
//
// Package disruption computes what the budgets allow. The Ledger holds the reservations that the cache does not show yet. The package
// imports no clients: an Observe function returns the cluster's state.
//
// It has no goroutines.
package budget
