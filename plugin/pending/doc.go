// Package pending holds the pods for which no node is being launched, and decides when they are planned again.
//
// Pods holds two kinds: pods for which a plan found nothing, which are planned again when what can be launched changes, and pods
// whose planning failed while they were planned alone, which are set aside for a growing time. Divide divides a batch whose
// planning failed into parts to try again. Terminating finds pods that need no node, since a pod of the same controller is about
// to free its place. The package starts no goroutine, calls no API and reads no clock.
package pending
