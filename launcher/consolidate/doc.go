// Package consolidate reduces the cost of a running cluster. Every few seconds, if something has changed, it asks the
// scheduler which sets of nodes are worth removing. The question lists the nodes that may be removed and how many the
// budgets allow. The answer's sets are handed to package disrupt as moves.
//
// disruption.BlocksConsolidation, a pure function, decides which nodes may be removed. plugin/consolidate decides which are
// worth it.
//
// The Event Unconsolidatable states on each node that stays why it stays.
//
// Goroutines: Run's. Package disrupt carries out the moves. Package reclaim removes empty nodes.
package consolidate
