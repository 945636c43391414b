// Package tap is a reverse proxy between a program and an HTTP server that it calls. It records every effect: each request
// that changes something at the API server or in AWS, in the order of arrival. It can stop the program at an effect, drop a
// request or its response, and cut the connection.
//
// The taps of one sandbox share a Journal. A Tap's goroutines are those of its HTTP server; they end with the context of
// Run.
package tap
