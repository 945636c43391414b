// Package promise holds which pods have a slot on a node that is coming: the one table that the plugin's three checks
// read (PreEnqueue, the SchedulePod hook or PreFilter, PostFilter).
//
// A promised pod is gated, and a gated pod ignores every cluster event and the queue's periodic flush. So each way out
// of the table releases first and activates after; there is no way out that does not activate.
//
// A Table is safe for concurrent use: the scheduling goroutine reads it, the planner and informer handlers change it.
// It starts no goroutine.
package promise
