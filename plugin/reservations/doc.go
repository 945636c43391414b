// Package reservations keeps the room that was planned for the pods of nodes that terminate.
//
// Each displaced pod has one reservation on the node where it was planned: the pod's own until it leaves its node, and from then
// on that of the replacement pod that its controller creates. A reservation ends when the replacement pod has a place, when the
// node does not terminate after all, or after a time.
//
// Beside these there is standing room, that of reserved CapacityBuffers: it waits for whichever pod of its takers comes.
//
// A Table belongs to the planner's goroutine. A Board is what others see of it: the scheduler's Filter keeps pods off reserved
// room with it (Needs, Standing, Short, Clash). The package starts no goroutine and calls no API.
package reservations
