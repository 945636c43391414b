// Package disruption holds the rules by which nodes are disrupted: what blocks a node, which pods a drain evicts and in which
// order, which pods need room elsewhere, when an empty node is given back, and how many nodes a NodePool's budgets let go.
//
// The launcher acts by these rules, and `slipway simulate --consolidate` predicts by them, so that a simulation promises
// nothing that the launcher refuses. Package internal/disruption/parity runs the same fleets through both.
//
// Every rule is a pure function over Kubernetes' and Karpenter's API types: no client, no clock, no state.
package disruption
