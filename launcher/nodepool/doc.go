// Package nodepool maintains the status of each NodePool: whether it is valid (Validate, a pure function), whether its EC2NodeClass is
// ready, the sum of its NodeClaims, Karpenter's hash. An invalid pool reports the wrong field and launches nothing; other pools are not
// affected.
//
// Goroutines: the controller's. All effects run under leadership.
package nodepool
