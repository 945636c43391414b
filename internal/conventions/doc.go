// Package conventions checks, as Go tests, the rules of CONTRIBUTING.md that no linter checks: which packages may import which, where
// goroutines start, what must be documented. It has no code outside of tests.
package conventions
