// Package tap stands between a program and a server that it calls over HTTP, as a reverse proxy. It knows every effect: each
// request that changes something at the API server or in AWS, in the order in which they arrived. It can stop a program at
// one of them, lose a request or its answer, and cut the line.
//
// A Journal is common to the taps of one sandbox. A Tap's goroutines are those of its HTTP server; they end with the context
// of Run.
package tap
