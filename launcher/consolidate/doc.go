// Package consolidate keeps a running cluster cheap. Every few seconds, if something changed, it tells the scheduler which nodes may
// be touched and how many, is told which sets of them are worth giving up, and hands these to package disrupt as moves. Which node
// may be touched is said by disruption.BlocksConsolidation, a pure function; what is worth it is the scheduler's to say (plugin/consolidate).
//
// It also says on nodes why they stay: the Event Unconsolidatable.
//
// Goroutines: Run's. Moves are package disrupt's; empty nodes are package reclaim's.
package consolidate
