// Package server is the launcher's side of the contract with the scheduler's plugin: it records what the plugin decided, streams
// the catalog, and carries questions that only the scheduler can answer.
//
// Run serves on a unix socket until its context ends. Each stream has goroutines of its own, and a slow reader holds up nobody
// else: what it missed comes as one change. One goroutine keeps the instance types of all classes.
package server
