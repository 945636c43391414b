// Package observe watches a cluster from outside and keeps the moments that matter of each pod, node and NodeClaim: when
// each was created, bound, ready, untainted, gone. Moments carry the API server's revision, so that their order is that of
// the writes and not of their arrival here.
//
// The demo, the end-to-end tests and the benchmarks read it. It writes nothing.
package observe
