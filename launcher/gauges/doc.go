// Package gauges tells what is there: nodes, what they have and what their pods ask for, and pods, under the names and labels of
// Karpenter's metrics, which dashboards and alerts read. All of it is computed from the cache when somebody asks; nothing is
// kept that could be stale.
//
// Times is the exception: how long pods took is observed as they change.
package gauges
