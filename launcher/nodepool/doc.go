// Package nodepool keeps the status of each NodePool: whether it is valid (Validate, a pure function), whether its
// EC2NodeClass is ready, what its NodeClaims add up to, Karpenter's hash. A pool that is not valid says which field is
// wrong and is not served; no other pool is concerned.
//
// Goroutines: the controller's. All effects run under leadership.
package nodepool
