// Package model holds the form of requests: the parameters of each operation, their types, their allowed values, and which
// are required. It derives them from the SDK, whose code is generated from AWS's own service models. It sends an input with
// every field filled in through the SDK's client, and analyzes the request before it reaches the network. A field is
// required if the SDK refuses to send a request without it.
//
// An operation is analyzed when it is first checked. A Model may be used concurrently.
package model
