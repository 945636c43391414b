// Package podclass groups pods into the equivalence classes of a plan. Pods are in one class if their specs, labels and
// namespaces ask for the same nodes, their profile adds the same default topology spread, and their volumes can be used in the
// same places.
//
// It reads informers and starts no goroutine. Its types are safe for concurrent use.
package podclass
