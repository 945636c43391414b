// Package apiserver answers the lists and watches of a Kubernetes client from memory: the scheduler's plugins read volumes,
// namespaces and nodes through informers, and a simulation has no cluster.
//
// It is a transport for rest.Config that has no writes. What it serves never changes. It starts no goroutine; a watch ends with
// its request's context, or when its body is closed.
package apiserver
