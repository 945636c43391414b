// Package karpenter has the tests that run Karpenter's own controller, unchanged and built from its module (karpenter.mod), with a stock
// kube-scheduler on the sandbox's AWS: `make karpenter-on-sandbox`. `make beside-karpenter` measures it beside slipway. It
// has no code of its own.
package karpenter
