// Package walk holds the end-to-end tests that hurt: processes are killed, stopped and cut off at every step of what slipway
// does, two pairs fight for the Lease, and a random soak does all of it at once. Each has a sandbox of its own with taps, and
// is judged by e2e/invariants.
//
// testdata/steps.txt lists the steps of every flow, as the taps saw them; `make crash-walk` walks all of them, `make soak`
// soaks. `go test` does a little of each.
package walk
