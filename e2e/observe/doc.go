// Package observe watches a cluster from outside and records the times that matter of each pod, Node and NodeClaim: when it
// was created, bound, ready, untainted, deleted. A Moment carries the API server's revision, so that moments are ordered by
// the writes and not by their arrival at the watcher.
//
// The demo, the end-to-end tests and the benchmarks read it. It writes nothing.
package observe
