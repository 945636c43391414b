// Package nodeclass resolves the selectors of each EC2NodeClass into its status, writes Karpenter's hash on it, and keeps its finalizer
// until no NodeClaim needs it. A class that cannot be resolved reports the reason in its conditions and does not affect other classes.
//
// Goroutines: the controller's. All effects run under leadership.
package nodeclass
