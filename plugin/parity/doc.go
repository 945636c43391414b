// Package parity holds the proof that plans agree with kube-scheduler; it has tests alone.
//
// Random small clusters are planned and verified, and each plan is held against the scheduler's own plugins by code that
// shares nothing with package verify: every planned pod must pass all filters on its node, on every instance type, zone
// and capacity type that its claim allows; no pod may be left out for which a brute-force search over all offerings
// finds a node; the order of the input must not matter; bills, bounds, limits and minValues must hold. The proof starts
// no goroutines beside the informers of each test.
//
// Every hundredth case also has pods, in a namespace of their own, that ask for more work than they are worth: impossible and
// negative requests, lists of thousands of elements, names of the greatest length. What such a plan takes of the CPU and of
// memory is measured while no other case runs, and must stay within bounds; impossible requests are refused by name; and the
// other pods are placed as without them.
package parity
