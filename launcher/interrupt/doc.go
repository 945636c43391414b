// Package interrupt reads the interruption queue and acts on what EC2 announces: the node is cordoned, the scheduler
// is asked to plan room for its pods, and once that is planned (or after a few seconds) the NodeClaim's end begins, so
// evictions start while two minutes are still left. They do not wait for the new nodes to be ready: a pod that is
// evicted early is promised its place there, and one that waits too long dies with the instance.
//
// A message is deleted once its effect is recorded, which is the NodeClaim's deletion; until then the queue delivers it
// again. Effect, a pure function, says what a message asks for.
//
// Goroutines: Run's loop and one per instance of a batch of messages, which it waits for. All effects run under leadership.
package interrupt
