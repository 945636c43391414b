// Package commands has the tests that run what the documentation shows: every command of a fenced block in docs/, README.md and
// CONTRIBUTING.md has a class (classes_test.go), and those that a sandbox can take are run in one, which the built
// slipway-sandbox brings up as the documentation says. It is tests alone.
package commands
