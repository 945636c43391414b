// Package plan decides which nodes to launch for a batch of unschedulable pods, and which pods go where. It is a pure
// function over plain data: same input, same plan; no clock, no goroutine, no client.
package plan
