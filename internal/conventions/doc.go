// Package conventions checks, as Go tests, the rules of CONTRIBUTING.md that no linter knows: who may import whom, where
// goroutines start, what must be documented. It has no code that runs outside of tests.
package conventions
