// Package expire ends NodeClaims that are older than their expireAfter, as Karpenter does: whatever budgets say, and
// do-not-disrupt. What follows is the ordinary way to leave: package terminate has room planned for the pods first, and drains
// within their budgets and the termination grace period.
//
// Before that is a soft window (Soft), in which package roll replaces the node gracefully and within the budgets, if nothing is in
// the way. With it an expiry that ignores budgets is the exception.
//
// Decide, a pure function, says when the hard end is; the reconciler looks at each NodeClaim when it changes and when it is due.
package expire
