// Package join brings a launched instance into the cluster: it creates its Node before the kubelet boots, keeps it alive until
// the kubelet takes over, binds the promised pods at the right moment, lifts the startup taint, and says when the node is
// registered and initialized. A node that does not join in time is ended.
//
// Decide is pure: what is observed of one NodeClaim to the list of what to do. Controller is the edge: a controller-runtime
// reconciler per NodeClaim that observes, decides and acts.
package join
