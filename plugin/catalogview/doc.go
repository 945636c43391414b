// Package catalogview is the planner's view of the launcher: the catalog as it was last received, and what has happened since.
//
// A View adds to the catalog the claims that the launcher has recorded and does not show yet, and the nodes that have joined
// and that the scheduler's cache does not show yet. It takes out what has to wait after failed launches: NodePools for faults
// of their own, single offerings for want of capacity. The package is pure: it reads no clock and calls nothing.
package catalogview
