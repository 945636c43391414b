// Package hooks sets three functions on exported fields of kube-scheduler's Scheduler. NextPod notices that the queue has
// drained. SchedulePod rejects promised pods, handles clusters without nodes, lets one failure count for a whole class of
// pods, and tries equal pods on the nodes that were best for the first of them. FailureHandler is a cheaper way for slipway's pods. No other
// package depends on the inside of the scheduling loop. A test pins the behavior of 1.36 on which it builds.
//
// Each hook delegates everything else to the function that was there before. A panic in slipway's part of a hook is recovered and
// trips the hook: for ten minutes it only delegates.
//
// The hooks run in the scheduling goroutine; binding goroutines call FailureHandler too. The package starts no goroutine.
package hooks
