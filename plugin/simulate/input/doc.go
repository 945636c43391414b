// Package input reads the objects of a simulation: YAML and JSON as users and kubectl write them, with the defaults that the API
// server and its controllers would set, and workloads expanded to their pods.
//
// It is made for inputs of ten thousand pods. Documents are divided into their top-level parts without being parsed. A part with
// the same text as an earlier one, such as the spec of a pod of the same workload, is not parsed again but shared. So the
// returned objects share memory: a caller that changes one copies it first.
//
// An object that cannot be read, or that the API server would refuse, becomes a Problem and is left out; the others are read. The
// package starts no goroutine.
package input
