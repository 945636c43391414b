// Package drift says which nodes are no longer what their NodePool and EC2NodeClass ask for, and why: the condition Drifted of
// the NodeClaim, with Karpenter's reasons. Decide is a pure function over what is known of the claim; the reconciler looks
// at each claim when it, its NodePool or its class changes, and every few minutes for what changes in AWS alone.
package drift
