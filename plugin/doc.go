// Package plugin makes kube-scheduler launch nodes: two scheduler plugins, NodeLaunch and NodeReserve, and what stands
// behind them.
//
// A pod that no node takes reaches NodeLaunch's PostFilter, which notes it and returns at once. The planner's goroutine
// closes batches of such pods, has nodes planned for them and the plan verified by the scheduler's own filters
// (plugin/provision), promises each pod its slot (plugin/promise) and sends the plan to the launcher (plugin/link). Small hooks on the Scheduler's fields (plugin/hooks) tell when the queue has drained and spare the
// stock loop what it need not do; without them everything works, slower.
//
// Goroutines start in run.go only: the planner, the status writer, one receiver for each of the two streams, the
// answerers of the launcher's questions, the consolidator, and one for each launch that is sent. All stop when the context
// given to Run ends, plans among them: none is computed that nobody waits for. The scheduling goroutine never waits for any of them: it takes short locks.
//
// Of the launcher the package knows launcher/api and launcher/catalog alone.
package plugin
