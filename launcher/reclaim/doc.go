// Package reclaim removes empty nodes. disruption.DecideEmpty, a pure function, decides when a node has been empty for its NodePool's
// consolidateAfter; package budget's ledger limits how many nodes of the pool terminate at once. A node is cordoned before it terminates,
// and the scheduler is asked. If the scheduler needs the node, or does not answer, the node stays.
//
// The package also maintains status.lastPodEventTime and the condition Consolidatable of NodeClaims.
//
// Goroutines: the controller's. All effects run under leadership.
package reclaim
