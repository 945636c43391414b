// Package plugin makes kube-scheduler launch nodes: two scheduler plugins, NodeLaunch and NodeReserve, and the objects behind
// them.
//
// A pod that no node takes reaches NodeLaunch's PostFilter, which hands it over and returns at once (plugin/intake). The
// planner's goroutine works in steps (planner.go). Its objects, in the order of the data:
//
//   - catalogUpdates apply what the launcher reports to the view of its catalog (plugin/catalogview), to promises
//     (plugin/promise) and to reservations (plugin/reservations);
//   - adopter collects the pods of other schedulers;
//   - candidates choose the pods of a batch that need a node, and hold the others (plugin/pending);
//   - provisioner has nodes planned for them, verified by the scheduler's own filters (plugin/provision);
//   - launchSender promises each pod its slot and sends the plan to the launcher (plugin/link);
//   - displacer does the same for the pods of nodes that terminate, as the launcher asks.
//
// The consolidator decides which nodes to give up, beside the planner. Small hooks on the Scheduler's fields (plugin/hooks) report
// when the queue has drained and spare the stock loop what it need not do. Without them everything works, slower.
//
// New makes what the scheduling goroutine and the planner share (shared.go), the plugins' factories make the plugins, and Install
// makes all other objects once, in the order in which they need each other (core.go). Nothing is set afterwards.
//
// Goroutines start in run.go only: the planner, the status writer (plugin/podstatus), one receiver for each of the two streams,
// the answerers of the launcher's questions, the consolidator, the lookups of how pods ended (podends.go), and one for each launch that is sent. All stop when the context
// given to Run ends, plans among them. The scheduling goroutine never waits for any of them: it takes short locks.
//
// Of the launcher the package imports launcher/api and launcher/catalog alone.
package plugin
