// Package buffers holds the pods of capacity buffers, which exist nowhere else, and where they have room.
//
// Pods makes them of the template that the launcher resolved. Table remembers the node of each: the room is theirs when other nodes' pods move,
// and they move with the pods of their node. Pods that are pending do not count with them, and may take their room.
//
// The package is pure: no clients, no clock, no goroutines.
package buffers
