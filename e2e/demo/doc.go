// Package demo shows slipway in two minutes on a sandbox: pods scaled from 0 to 60, nodes planned and launched, pods
// pre-bound, a pod that fits no node and the reason, a spot interruption, and scaling back to zero.
//
// Every step is checked. A step that fails, fails the demo.
package demo
