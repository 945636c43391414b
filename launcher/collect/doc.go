// Package collect finds and terminates what a crash between any two steps can leave behind: instances of this cluster that no NodeClaim owns
// or waits for, and NodeClaims whose instance no longer exists, or whose Node was deleted without its finalizer. Instances that run on after the end of their capacity reservation are found on the way,
// since all instances are listed: their NodeClaims and Nodes get the labels of what they are now. Decide, a pure function, selects them all.
//
// Goroutines: Run's. All effects run under leadership.
package collect
