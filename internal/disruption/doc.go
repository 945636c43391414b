// Package disruption holds the rules of node disruption: what blocks a node, which pods a drain evicts and in which order,
// which pods need room elsewhere, when an empty node is removed, and how many nodes the budgets of a NodePool allow.
//
// The launcher follows these rules, and `slipway simulate --consolidate` predicts with them, so that a simulation promises
// nothing that the launcher refuses. Package internal/disruption/parity runs the same fleets through both.
//
// Every rule is a pure function over API types of Kubernetes and Karpenter: no client, no clock, no state.
package disruption
