//go:build race

package parity_test

const (
	// cases is how many TestParity runs: fewer where the race detector makes each ten times dearer.
	cases = 200
	// dearer is how many times the CPU and the memory of others the race detector takes.
	dearer = 10
)
