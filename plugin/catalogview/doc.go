// Package catalogview is the planner's view of the launcher: the catalog as it was last received, with what has happened since.
//
// A View adds to the catalog the claims that the launcher has recorded and the catalog does not have yet, and the nodes that have
// joined and the scheduler's cache does not have yet. After failed launches it leaves out for a while what failed: the NodePool
// if the NodePool is at fault, single offerings if they lack capacity. The package is pure: it reads no clock and calls nothing.
package catalogview
