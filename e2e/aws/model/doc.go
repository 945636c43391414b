// Package model knows what requests may look like: the parameters of each operation, their types, their allowed values and
// which are required. It reads this from the SDK, whose code is generated from AWS's own service models: an input with every
// field filled in is sent through the SDK's client, and what would have gone over the wire is taken apart; a field without
// which the SDK refuses to send is required. Nothing is sent anywhere.
//
// An operation is taken apart when it is first asked for. A Model may be used concurrently.
package model
