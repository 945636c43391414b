// Package block drains the nodes of a Capacity Block from 40 minutes before the block's end, as Karpenter does: EC2 begins to terminate the
// instances 30 minutes before the end. Package terminate then plans room for the pods, and drains within PodDisruptionBudgets and the
// termination grace period.
//
// Decide, a pure function, returns when a node drains. The reconciler runs when a NodeClaim changes, every minute, because a block may be
// extended, and when the drain begins. Only NodeClaims with the label of Capacity Blocks are read.
package block
