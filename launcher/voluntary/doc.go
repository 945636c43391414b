// Package voluntary holds what all voluntary disruptions share (reclaim, drift, expire, consolidation): the observation of the cluster for
// package budget's ledger, and the metrics, with Karpenter's names, registered once.
//
// It has no goroutines.
package voluntary
