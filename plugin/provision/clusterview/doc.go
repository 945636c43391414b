// Package clusterview is the cluster as a plan sees it: a View has the nodes of a snapshot of the scheduler's cache and the
// nodes in flight as they will be once they are initialized, with the pods that are promised to them and the DaemonSet
// pods that will come. The planner places pods on it, and the filters are asked about them there.
//
// A View is for one caller at a time, and only as long as its snapshot does not change. The package starts no goroutine.
package clusterview
