// Package batch decides when the pods collected so far are planned: at once where nothing more is to come, after a short
// wait otherwise. It is a state machine without goroutine, lock or clock; every call carries the time, and the caller
// asks Check again after each event and when the deadline that Check gave has come.
package batch
