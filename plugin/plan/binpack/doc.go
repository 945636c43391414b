// Package binpack packs items into bins of many types for as few dollars as it finds, and proves what no packing can be
// cheaper than. It knows vectors, sets and prices, and nothing of Kubernetes: same input, same packing; no clock, no
// goroutine. Solve and LowerBound are its entrance (pack.go).
package binpack
