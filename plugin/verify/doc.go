// Package verify checks a plan with the scheduler's own filters.
//
// A World is the cluster as a plan sees it: the nodes of a snapshot of the scheduler's cache and the nodes in flight.
// A Verifier holds one extra framework per profile, with the profile's plugins but without PostFilter and without
// slipway's own; it places everything that a plan places on virtual nodes and asks, for each class on each node,
// whether PreFilter and Filter let one pod of the class be where the plan put it while everything else is in place.
// So topology spread and affinity are judged by the final state, and the order of placement does not matter.
//
// Neither is safe for concurrent use: the planner's goroutine owns them. The package starts no goroutine of its own;
// the frameworks' metrics recorder stops with the context given to New.
package verify
