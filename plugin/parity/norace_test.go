//go:build !race

package parity_test

const (
	// cases is how many TestParity runs.
	cases = 2000
	// dearer is how many times the CPU and the memory of others a case takes.
	dearer = 1
)
