// Package catalog holds what can be launched, as plain values: NodePools, instance types with their labels, capacity,
// allocatable and offerings, nodes in flight, and the requirements that select among them.
//
// Everything in it is pure: no clock, no network, no AWS SDK client. The launcher fills it, the plugin plans with it.
package catalog
