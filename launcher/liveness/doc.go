// Package liveness answers the kubelet's liveness probe from what the launcher's loops do: each notes when it comes round,
// and one that no longer does makes the probe fail, so that the kubelet starts the container anew. It has no goroutine.
package liveness
