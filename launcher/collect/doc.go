// Package collect finds what a crash between any two steps can leave behind and ends it: instances of this cluster
// that no NodeClaim owns or waits for, and NodeClaims whose instance is gone. Decide, a pure function, says which.
//
// Goroutines: Run's. All effects run under leadership.
package collect
