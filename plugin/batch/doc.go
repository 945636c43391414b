// Package batch decides when the collected pods are planned: at once if no more pods are expected, after a short wait otherwise.
// It is a state machine without goroutine, lock or clock. Every call carries the time. The caller calls Check after each event
// and at the time that the last Check returned.
//
// Once the scheduling queue has drained, the pods close in sets: the pods of an owner, of a gang, or of a namespace in which the
// places of pods depend on each other. A set that is complete waits for other owners that are creating their pods, but for the
// idle window at most. It never waits for owners that do not state how many pods they want, since anyone can make those up.
package batch
