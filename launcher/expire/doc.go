// Package expire deletes NodeClaims that are older than their expireAfter, as Karpenter does, regardless of budgets and
// do-not-disrupt. Package terminate then makes reservations for the pods, and drains within PodDisruptionBudgets and the
// termination grace period.
//
// The expiry is preceded by a soft window (Soft). In it package roll replaces the node gracefully and within the budgets,
// unless something blocks the node.
//
// Decide, a pure function, returns when a claim expires. The reconciler runs when a NodeClaim changes and when it expires.
package expire
