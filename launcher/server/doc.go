// Package server implements the launcher's side of the contract with the scheduler's plugin: it records the plugin's decisions, streams the
// catalog, and forwards questions that only the scheduler can answer.
//
// Run serves on a unix socket until its context ends. Each stream has its own goroutines, and a slow reader delays no other: its missed
// changes arrive as one. One goroutine maintains the instance types of all classes.
package server
