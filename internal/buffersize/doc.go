// Package buffersize computes how many pods a CapacityBuffer has room kept for, and what its status says of them.
//
// The figures are Karpenter's: replicas or a percentage of the workload, whichever is more, within the limits. Beyond that one namespace has
// room for MostPods at most. The package is pure: no clients, no clock, no goroutines.
package buffersize
