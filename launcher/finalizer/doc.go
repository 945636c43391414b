// Package finalizer says who owns a NodeClaim and its Node while a Karpenter runs beside slipway: the finalizer is the owner. Karpenter's
// finalizer is on every object while slipway is alone. Objects of NodePools that were handed over have slipway's own instead: Karpenter
// launches no NodeClaim and drains no Node that lacks its finalizer, and the admission policy slipway-handover-objects keeps it from adding it.
//
// It is pure: no client, no clock.
package finalizer
