// Package nodeclass keeps the status of each EC2NodeClass in line with what its selectors stand for in AWS, stamps
// Karpenter's hash on it, and holds its finalizer until no NodeClaim needs it any more. A class that cannot be resolved
// says why in its conditions and concerns no other.
//
// Goroutines: the controller's. All effects run under leadership.
package nodeclass
