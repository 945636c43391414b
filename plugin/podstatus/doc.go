// Package podstatus writes on pods what they wait for: the condition PodScheduled, the reasons that no node is launched as the typed
// condition slipway.dev/NodeLaunchable in the same patch, Events, and the nominatedNodeName of adopted pods.
//
// Writes are bounded to 100 a second, so that a wave of pods leaves the API server's time to their bindings, and the namespaces take
// turns, so that the pods of one do not delay those of another. Only the newest note of a pod is written, and a pod gets at most one
// Event in ten seconds. New figures in a message whose reasons are those that the pod has already are written for 50 pods at once, and for
// five a second after that. A pod that was bound without a launch has its typed condition removed within a minute. Report may be called from
// any goroutine and never blocks. Run writes in its caller's goroutine and returns when its context ends.
package podstatus
