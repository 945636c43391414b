// Package reclaim gives empty nodes back. disruption.DecideEmpty, a pure function, says when a node has been empty for its
// NodePool's consolidateAfter; package budget's ledger says how many nodes of the pool may go at once. Before a node goes it is
// cordoned and the scheduler is asked; a scheduler that has something for the node, or does not answer, keeps it.
//
// It also keeps status.lastPodEventTime and the condition Consolidatable of NodeClaims.
//
// Goroutines: the controller's. All effects run under leadership.
package reclaim
