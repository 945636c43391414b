// Package link is the plugin's side of the contract with the launcher: a gRPC client on a unix socket.
//
// A Link keeps two streams open for as long as its two receivers run, RunCatalog and RunQuestions, and reconnects with
// backoff. On each connection it first tells the launcher under which identity the scheduler takes part in leader
// election, so the launcher never acts for another one. It starts no goroutine of its own (gRPC does); whoever builds
// it runs the receivers and stops them through their context.
package link
