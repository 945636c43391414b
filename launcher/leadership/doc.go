// Package leadership tells the rest of the launcher whether it may act. The scheduler takes part in leader election and
// tells its identity with the Lead call; the launcher acts while the Lease names that identity, and every effect runs
// with a context that ends 3 seconds before the Lease could pass to somebody else.
//
// It knows nothing of what the effects are. Run has one goroutine that polls the Lease; a timer ends leadership even
// where that poll hangs. Both end with the context of Run.
package leadership
