//go:build !race

package parity_test

// cases is how many TestParity runs.
const cases = 2000
