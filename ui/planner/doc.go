// Package planner answers the page's questions that need the planner: which edit helps pending pods, what if an object were another, what a buffer would have cost and saved, and how far the
// nodes are from the least that they could cost. `slipway ui` serves it on the user's machine: it plans there, as `slipway simulate --from-cluster`
// does, with the objects that the user's kubeconfig may read. Nothing in the cluster changes.
//
// One question is planned at a time, within a bounded time. Objects and answers are kept for a short time, longer where they took long. A Server is
// safe for concurrent use and starts no goroutine of its own.
package planner
