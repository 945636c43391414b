// Package consolidate decides which nodes of a running cluster to give up, and what to launch for their pods instead: n
// nodes for m others, or for room that is free elsewhere. It is a pure function over the fleet; what the pods of a set of
// nodes would need is the planner's to say, and asked for.
package consolidate
