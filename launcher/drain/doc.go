// Package drain decides, as a pure function of a node's pods and the time, which of them to evict now, which must be
// deleted because the NodeClaim's termination grace period runs out, and which hold the node. The order and the
// exceptions are Karpenter's; so are the meanings of karpenter.sh/do-not-disrupt.
//
// It knows Kubernetes' API types and nothing else: no client, no clock.
package drain
