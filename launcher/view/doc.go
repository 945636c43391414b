// Package view turns the objects of a cluster into what a human wants to see of slipway's work: each node with its
// price, its pods and how far it is, where the pods stand, the bill; and the answer to "why is my pod still pending?".
//
// It is pure: objects in, rows and text out. `slipway status`, `slipway explain` and the sandbox's demo print it.
package view
