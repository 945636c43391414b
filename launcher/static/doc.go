// Package static keeps the number of nodes of NodePools with spec.replicas (feature gate StaticCapacity): it creates NodeClaims that are
// missing, terminates those that are too many, and replaces drifted ones.
//
// A drifted node is replaced by adding one: as many NodeClaims more than spec.replicas as the disruption budgets let drifted nodes go, and as
// the limit of nodes has room for. Once the added nodes are initialized, the drifted ones are too many, and terminate. One that was never
// initialized goes first.
//
// Decide is pure. Keeper is the loop around it.
//
// Goroutines: the one that calls Run. Its effects run under leadership.
package static
