// Package view renders the objects of a cluster for people: each node with its price, pods and state, the pods by state, the cost; and the
// answer to "why is my pod still pending?".
//
// It is pure: objects in, rows and text out. `slipway status`, `slipway explain` and the sandbox's demo print it.
package view
