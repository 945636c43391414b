// Package backoff delays further launches for pods whose launches were useless: the node existed, and none of the pods for
// which it was launched ran on it. Without a delay, the empty node would be reclaimed and the next one launched, without
// end. Launches that EC2 refuses, and nodes that do not join, delay their NodePool instead.
//
// A gang that gives its nodes back, since others of its pods got none, has a delay of its own.
//
// Delays are per owner: the controller of a pod, or the pod itself. The package reads no clock and calls nothing. Its memory
// is bounded by the pods that have not run for a minute since nodes were launched for them, and by maxOwners. It starts
// empty in a new process: each restart costs an owner one launch without a delay, and launches in flight are recorded again.
package backoff
