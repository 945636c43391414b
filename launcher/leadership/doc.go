// Package leadership decides whether the rest of the launcher may act. The scheduler takes part in leader election and sends its identity
// with the Lead call. The launcher acts while the Lease names that identity, and every effect runs with a context that ends 3 seconds before
// another process could acquire the Lease.
//
// The package does not depend on what the effects are. Run has one goroutine that polls the Lease; a timer ends leadership even if that poll
// hangs. Both end with the context of Run.
package leadership
