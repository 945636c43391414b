// Package podstatus writes on pods what they wait for: the condition PodScheduled, Events, and the nominatedNodeName of adopted
// pods.
//
// Writes are bounded to 100 a second, so that a wave of pods leaves the API server's time to their bindings. Only the newest note
// of a pod is written, and a pod gets at most one Event in ten seconds. Report may be called from any goroutine and never blocks.
// Run writes in its caller's goroutine and returns when its context ends.
package podstatus
