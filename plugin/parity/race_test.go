//go:build race

package parity_test

// cases is how many TestParity runs: fewer where the race detector makes each ten times dearer.
const cases = 200
