package api

import "time"

// AnswerWithin is how long the launcher waits for the answer to a question about nodes: the scheduler waits up to 5 s for a taint to reach its cache, or
// plans. After that an answer is not used, and neither is what was launched for it.
const AnswerWithin = 10 * time.Second

// The limits of the socket. A cluster of 5,000 nodes with 150,000 pods, in which all nodes are in flight at once, needs half of that at
// most: a test of package server measures it.
const (
	// MaxMessageBytes is the most that a message may have. The largest are the first message of a catalog stream and a launch of many nodes.
	MaxMessageBytes = 128 << 20
	// MaxConnections is how many connections the launcher serves at once. The scheduler has one; probes and a scheduler that restarts have
	// others for a moment.
	MaxConnections = 16
	// MaxStreams is how many calls may be open on one connection. The scheduler has a catalog stream, a stream of questions, and a few calls.
	MaxStreams = 32
)
