// Package protect says what keeps a node from being taken away gracefully: karpenter.sh/do-not-disrupt on the node, its NodeClaim
// or one of its pods, PodDisruptionBudgets that let a pod go at no time, or not now, and pods that nothing would create again. Look is a pure function; what it finds is
// the text of Karpenter's Event DisruptionBlocked.
package protect
