// Package ondemand keeps minimum on-demand shares: of each workload, some pods may not be on nodes that EC2 takes back at short notice. Split
// divides the pods of a plan, Rule judges one more pod on one node. A workload is the pods of one controller; a pod without a controller is a
// workload of its own.
//
// The package is pure: it imports no client, no logger and no clock.
package ondemand
