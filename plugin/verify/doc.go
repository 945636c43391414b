// Package verify checks a plan with the scheduler's own filters.
//
// A Verifier holds one extra framework per profile, with the profile's plugins but without PostFilter and without
// slipway's own. Check places everything that a plan places on a view of the cluster and asks, for each class on each node,
// whether PreFilter and Filter let one pod of the class be where the plan put it while everything else is in place.
// So topology spread and affinity are judged by the final state, and the order of placement does not matter. Of a plan
// that passes it asks the same about each claim's alternatives. It changes no plan: package provision does.
//
// A Verifier is for one caller at a time. The package starts no goroutine of its own; the frameworks' metrics recorder
// stops with the context given to New.
package verify
