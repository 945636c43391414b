// Package pending holds the pods for which no node is being launched, and decides when they are planned again.
//
// Pods is the list of them: pods for which a plan found nothing, which are planned again when what can be launched changes, and
// pods whose planning failed while they were planned alone, which are set aside for a growing time. Divide gives the parts in
// which a batch is tried again on which planning failed. Terminating finds the pods that get the room of one that ends in a
// moment. The package starts no goroutine, calls no API and reads no clock.
package pending
