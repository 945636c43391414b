// Package sleep evicts the pods of namespaces that sleep, by the windows of their annotation slipway.dev/sleep. The scheduler holds their replacements back,
// and wakes them: see package window for when. No spec changes. Nodes that become empty are given back by package reclaim.
//
// Which pods go is said by package disruption. Keeper is the loop around it, in one goroutine, under leadership.
package sleep
