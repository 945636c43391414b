// Package link is the scheduler's side of the contract with the launcher: a gRPC client on a unix socket.
//
// A Link keeps two streams open while its two receivers run, RunCatalog and RunQuestions, and reconnects with backoff. On each
// connection it first sends the identity under which the scheduler takes part in leader election, so that the launcher acts for
// no other scheduler. It starts no goroutine of its own; gRPC does. The owner of a Link runs the receivers and stops them through
// their context.
package link
