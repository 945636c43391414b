// Package catalog defines what can be launched, as plain values: NodePools, instance types with their labels, capacity, allocatable and
// offerings, in-flight nodes, and the requirements that select among them.
//
// Everything in it is pure: no clock, no network, no AWS SDK client. The launcher fills it, and the plugin plans with it.
package catalog
