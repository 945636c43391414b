// Package join adds a launched instance to the cluster. It creates its Node before the kubelet boots, renews the Node's Lease until the
// kubelet does, binds the promised pods at the right moment, removes the startup taint, and sets the conditions Registered and Initialized.
// A node that does not join in time is terminated.
//
// Decide is pure: it turns the observation of one NodeClaim into a list of actions. Controller is the edge: a controller-runtime reconciler
// per NodeClaim that observes, decides and acts.
package join
