// Package decisions keeps what was decided about nodes in the last 24 hours: launches, refusals, consolidations and terminations with their reasons.
// Ring is pure. A Recorder reads launches and terminations off NodeClaims; the parts that launch and move nodes report the rest. The leader writes
// the ring to a ConfigMap, from which it goes on after a restart, and which the other replicas read.
//
// Recorder is safe for concurrent use. Its Run returns when its context ends.
package decisions
