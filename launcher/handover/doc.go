// Package handover moves NodePools between a running Karpenter and slipway, without launching a node again. A NodePool that the handover
// selector names becomes slipway's once the admission policies are proven to keep Karpenter from it; then its NodeClaims and Nodes change
// owner, one after the other, by their finalizers (package finalizer). A NodePool that loses the label is returned in the same way, and where
// no Karpenter runs any more every object gets Karpenter's finalizer back.
//
// Decide is pure. Goroutines: Run's, under leadership.
package handover
