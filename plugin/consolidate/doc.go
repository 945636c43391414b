// Package consolidate decides which nodes of a running cluster to remove, and what to launch for their pods instead: n nodes for
// m others, or for free room on existing nodes. It is a pure function over the fleet. It asks the planner, through a function,
// what the pods of a set of nodes would need.
package consolidate
