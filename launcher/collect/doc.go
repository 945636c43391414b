// Package collect finds and terminates what a crash between any two steps can leave behind: instances of this cluster that no NodeClaim owns
// or waits for, and NodeClaims whose instance no longer exists. Decide, a pure function, selects them.
//
// Goroutines: Run's. All effects run under leadership.
package collect
