// Package edits finds the smallest single edit of an object after which pods that cannot be placed have a node: a higher limit of a NodePool, one
// more value of its requirements, a smaller request, a node selector less, a toleration more.
//
// Search is a pure function over plain data: it makes candidates of the planner's reasons, has each checked, and returns those that help. Find has
// them checked by a simulation, which is the planner with the scheduler's filters. Candidates, classes and time are bounded.
package edits
