// Package verify checks a plan with the scheduler's own filters.
//
// A Verifier holds one extra framework per profile, with the profile's plugins but without PostFilter and without slipway's own.
// Check adds all placements of the plan to a view of the cluster. Then it asks, for each class on each node, whether PreFilter
// and Filter accept one pod of the class there while everything else is in place. So topology spread and affinity are judged by
// the final state, and the order of placement does not matter. For a plan that passes, it asks the same about each claim's
// alternatives. It changes no plan: package provision does.
//
// HTTP extenders with a filter verb are asked last, about all nodes of a class in one question. One that gives no answer rests, so that it
// costs a plan two seconds at most.
//
// A Verifier serves one caller at a time. The package starts no goroutine of its own. The frameworks' metrics recorder stops with
// the context given to New.
package verify
