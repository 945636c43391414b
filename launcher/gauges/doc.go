// Package gauges reports the current state: nodes, their resources and their pods' requests, and pods, with the names and labels of
// Karpenter's metrics, which dashboards and alerts use. It computes everything from the cache at each scrape; it keeps nothing that could be
// stale.
//
// Times is the exception: it observes durations as pods change.
package gauges
