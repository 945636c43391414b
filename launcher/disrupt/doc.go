// Package disrupt carries out graceful moves. A move removes a set of nodes that are underutilized, drifted or about to
// expire. Their pods have reservations elsewhere before the first pod is evicted. Deciders hand moves to Executor.Start.
// Next, a pure function, decides the next step of a move from what is observed:
//
//  1. The nodes are cordoned. The condition DisruptionReason of their NodeClaims states the reason.
//  2. The scheduler confirms that no pod is assumed, nominated or promised on them.
//  3. The scheduler makes reservations for the pods of all nodes. It launches what is missing, within the cost bound.
//  4. The launched nodes become initialized.
//  5. The scheduler confirms the reservations. The NodeClaims are deleted, and package terminate evicts the pods.
//
// Any failure before the deletion, and for a move of consolidation a pod that comes to its nodes within consolidateAfter, calls the move off: the cordons are removed, the scheduler then releases the reservations,
// and package reclaim removes launched nodes that stay empty. A move survives a short loss of leadership: it waits, and asks
// the scheduler again. Only the cordons outlive the process. Those without a move, left by a crash, are removed, and while no Karpenter runs those that
// one left.
//
// Goroutines: Run's, and one for each move. All effects run under leadership.
package disrupt
