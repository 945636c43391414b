// Package batch decides when the pods collected so far are planned: at once where nothing more is to come, after a short
// wait otherwise. It is a state machine without goroutine, lock or clock; every call carries the time, and the caller
// asks Check again after each event and when the deadline that Check gave has come.
//
// Once the scheduling queue has drained, the pods close in sets: the pods of an owner, of a gang, or of a namespace in which pods
// mind each other. A set that is complete waits for owners elsewhere that are creating their pods, but for the idle window at most,
// and never for owners whose end cannot be seen, since anybody may invent those.
package batch
