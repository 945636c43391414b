// Package terminate terminates NodeClaims, Nodes and instances. Begin starts a termination; from then on the deletion timestamp of the
// NodeClaim is the record, and the reconciler continues it after any crash. The steps are: cordon and delete the Node, drain it (package
// drain decides), wait for its volumes, terminate the instance until EC2 shows it terminated, fail the pods that were lost with it, remove
// the finalizers. Deleting a Node deletes its NodeClaim. A Node that another finalizer keeps keeps its NodeClaim, whose condition
// InstanceTerminating takes the node out of the budgets.
//
// A NodeClaim that lacks our finalizer while another one keeps it, such as foregroundDeletion, is terminated in the same way: it waits for
// its Node, and the Node for its instance.
//
// A node that never joined has nothing to drain: its instance terminates first.
//
// Goroutines: the controllers of the manager, and one that asks EC2 about all terminating instances at once (Run). All effects run under
// leadership.
package terminate
