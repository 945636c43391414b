// Package podclass groups pods into the equivalence classes of a plan. Pods are of one class if their specs, labels and
// namespaces ask for the same nodes, their profile spreads them alike by default, and their volumes can be used in the
// same places.
//
// It reads informers and starts no goroutine. Its types are safe for concurrent use.
package podclass
