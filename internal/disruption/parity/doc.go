// Package parity holds the proof that `slipway simulate --consolidate` promises what the launcher does; it has tests alone.
//
// The same fleet is given to both. The launcher's controllers for empty nodes and for consolidation run on it with their real
// ledger of budgets, against an API server in memory and a scheduler that has room for every pod. The simulation reads the same
// objects. The nodes that the launcher gives up must be the nodes of the simulation's first step.
package parity
