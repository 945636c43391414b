// Package repair replaces unhealthy nodes. A Node with a condition that lasts longer than Policies tolerates is terminated, regardless of
// budgets and do-not-disrupt, after room for its pods is planned. If more than a fifth of a NodePool's nodes are unhealthy, none is
// repaired: the cause is then not the nodes. The package is behind Karpenter's feature gate NodeRepair.
//
// Find, Decide and TooMany are pure functions; the reconciler looks at each Node when its conditions change and when it is due.
//
// Goroutines: the controller's. All effects run under leadership.
package repair
