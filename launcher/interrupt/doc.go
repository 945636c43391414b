// Package interrupt reads the interruption queue and acts on EC2's messages: the node is cordoned and the NodeClaim's termination begins.
// Package terminate then makes the scheduler plan room for its pods, before it evicts the first of them.
//
// A message is deleted once its effect is recorded, which is the NodeClaim's deletion; until then the queue delivers it again. EffectOf, a
// pure function, returns what a message requires. Several batches of messages are processed concurrently, so that a thousand messages of
// other clusters in the account do not delay one of this cluster.
//
// RunChecks asks EC2 each minute about failing status checks and scheduled events, which a cluster without a queue would miss; Judge, a pure
// function, returns what follows.
//
// Goroutines: the loops of Run and RunChecks, one per batch and one per message, which Run waits for. All effects run under leadership.
package interrupt
