// Package clusterview holds the cluster as a plan uses it. A View has the nodes of a snapshot of the scheduler's cache and the
// nodes in flight as they will be once they are initialized: with the pods that are promised to them and the DaemonSet pods that
// will come. The planner places pods on it, and the filters are asked about them there.
//
// A View serves one caller at a time, and only while its snapshot does not change. The package starts no goroutine.
package clusterview
