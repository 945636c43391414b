// Package interrupt reads the interruption queue and acts on what EC2 announces: the node is cordoned and the NodeClaim's end
// begins. Package terminate then has the scheduler plan room for its pods, before it evicts the first of them.
//
// A message is deleted once its effect is recorded, which is the NodeClaim's deletion; until then the queue delivers it
// again. Effect, a pure function, says what a message asks for. Several batches of messages are worked on at a time, so that
// a thousand messages of other clusters in the account do not keep one of ours waiting.
//
// RunChecks asks EC2 each minute about failing status checks and scheduled events, which a cluster without a queue would not hear
// of; Judge, a pure function, says what follows.
//
// Goroutines: the loops of Run and RunChecks, one per batch and one per message, which Run waits for. All effects run under leadership.
package interrupt
