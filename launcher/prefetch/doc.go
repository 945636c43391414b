// Package prefetch tells a node that boots which images its promised pods will need, so that they are pulled while its
// network starts: the kubelet begins to pull only afterwards. The list stands on the Node, not in the user data, so that no
// launch template depends on it, and so that it follows the promises; the unit that reads it is in launcher/aws/userdata.
//
// Make is pure: pods to a list. Controller is the edge: a controller-runtime reconciler per NodeClaim, at work until the
// node is Ready.
package prefetch
