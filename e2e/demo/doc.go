// Package demo tells slipway's story in two minutes on a sandbox: pods scaled from 0 to 60, nodes planned, launched and
// pre-bound before one's eyes, a pod that cannot be placed and why, a spot instance taken away, and back to zero.
//
// Every step is checked: one that does not come true fails the demo.
package demo
