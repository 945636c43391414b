// Package parity tests that plans agree with kube-scheduler; it has tests alone.
//
// The tests plan and verify random small clusters. They check each plan with the scheduler's own plugins, by code that shares
// nothing with package verify. Every planned pod must pass all filters on its node, on every instance type, zone and capacity
// type that its claim allows. A brute-force search over all offerings must find no node for a pod that was left out. The order of
// the input must not matter. Bills, bounds, limits and minValues must hold. The tests start no goroutines but the informers'.
//
// Every hundredth case also has pods, in a namespace of their own, that ask for much more work than others: impossible and
// negative requests, lists of thousands of elements, names of the greatest length. The plan's CPU and memory are measured while
// no other case runs, and must stay within bounds. Impossible requests are refused by name. The other pods are placed as they are
// without these pods.
package parity
