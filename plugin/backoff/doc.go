// Package backoff delays further launches for pods whose launches came to nothing, whatever the cause: the node was there, and
// none of the pods that it was launched for ran on it. Without a delay the empty node is reclaimed and the next one launched,
// without end. Launches that EC2 refuses, and nodes that do not join, delay their NodePool instead.
//
// Launches counts per owner: the controller of a pod, or the pod itself. It reads no clock and calls nothing. Its memory is
// bounded by the pods that were launched for and have not run for a minute, and by maxOwners. It starts empty in a new
// process: each restart costs an owner one launch without a delay, and the launches in flight are noted again.
package backoff
