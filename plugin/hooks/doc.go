// Package hooks puts three small functions on exported fields of kube-scheduler's Scheduler: NextPod (has the queue
// drained?), SchedulePod (promised pods, clusters without nodes, one failure for a whole class of pods) and FailureHandler (a
// cheaper way for pods that are slipway's). It is the only place that knows the insides of the scheduling loop, and a test pins the 1.36 behaviour
// that it builds on.
//
// Each hook delegates all that it does not need to what was there before. A panic in slipway's part of a hook is
// recovered and trips that hook: for ten minutes it only delegates.
//
// The hooks run in the scheduling goroutine, but for FailureHandler, which binding goroutines call too. The package
// starts no goroutine.
package hooks
