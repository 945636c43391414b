// Package voluntary has what all share who take nodes away of their own accord (reclaim, drift, expire, consolidation): their look
// at the cluster for package budget's ledger, and their metrics, under Karpenter's names, registered once.
//
// It has no goroutines.
package voluntary
