// Package promise holds which pods have a place on a node in flight. The plugin's three checks read its table: PreEnqueue, the
// SchedulePod hook or PreFilter, and PostFilter.
//
// A promised pod is gated, and a gated pod ignores every cluster event and the queue's periodic flush. The queue gates a pod when it is
// activated. So each pod that is added to the table is activated, and each that is removed from it; no change goes without.
//
// A Table is safe for concurrent use: the scheduling goroutine reads it, the planner and informer handlers change it. It starts
// no goroutine.
package promise
