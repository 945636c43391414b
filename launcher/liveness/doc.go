// Package liveness answers the kubelet's liveness probe from the progress of the launcher's loops: each loop reports every round, and a loop
// that stops reporting fails the probe, so that the kubelet restarts the container. It has no goroutine.
package liveness
