// Package prefetch writes to a booting Node which images its promised pods will need, so that they are pulled while the node's network
// starts: the kubelet starts pulling only afterwards. The list is on the Node, not in the user data, so that no launch template depends on
// it, and so that it follows changes of the promises; the unit that reads it is in launcher/aws/userdata.
//
// Make is pure: pods to a list. Controller is the edge: it puts the list on a Node that is to be created, and is a controller-runtime reconciler per
// NodeClaim that keeps it right until the node is Ready.
package prefetch
