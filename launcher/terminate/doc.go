// Package terminate ends NodeClaims, Nodes and instances. Begin starts an end; from then on the deletion timestamp of
// the NodeClaim is the record, and the reconciler carries it through, from any crash, in these steps: cordon and delete
// the Node, drain it (package drain decides), wait for its volumes, terminate the instance until EC2 shows it
// terminated, fail the pods that died with it, let the finalizers go. A deleted Node deletes its NodeClaim.
//
// A NodeClaim that lacks our finalizer while another one keeps it, such as foregroundDeletion, is ended in the same way: it
// waits for its Node, and the Node for its instance.
//
// A node that never joined has nothing to drain: its instance ends first.
//
// Goroutines: the controllers of the manager, and one that asks EC2 about all terminating instances at once (Run). All
// effects run under leadership.
package terminate
