// Package intake takes unschedulable pods from the scheduler, and gathers them into batches.
//
// A Collector hands pods from the scheduling goroutine to the planner's. A Batch holds the pods of the open batch. It closes when
// the queue has drained and the owners of its pods have created all that they want (plugin/batch has the rules). Owners counts
// the pods of controllers and gangs for it.
//
// The package starts no goroutine. Collector and Owners are safe for concurrent use; a Batch belongs to one goroutine.
package intake
