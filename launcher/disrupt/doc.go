// Package disrupt is the one executor of graceful moves: nodes that go together of somebody's own accord (underutilized, drifted,
// soon expired), whose pods have room elsewhere before the first of them is evicted. Deciders hand moves to Executor.Start; what
// a move does next is said by Next, a pure function over what is seen of it:
//
//  1. its nodes are cordoned, and the condition DisruptionReason of their NodeClaims says why;
//  2. the scheduler says that it has nothing for them;
//  3. the scheduler plans room for the pods of all of them, within what that may cost, launches what is missing and keeps it;
//  4. the nodes that were launched are initialized;
//  5. the scheduler confirms the room, and the NodeClaims are deleted: package terminate evicts.
//
// Whatever goes wrong before the deletion calls the move off: the cordons are taken back, with them the scheduler gives up the room
// that it kept, and nodes that stand empty then fall to package reclaim. A move whose leadership is lost for a moment goes on when it
// is back, and asks the scheduler anew. Nothing about a move outlives the process but the cordons: those without a move, a crash's, are
// taken back too.
//
// Goroutines: Run's, and one for each move. All effects run under leadership.
package disrupt
