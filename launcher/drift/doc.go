// Package drift finds nodes that differ from what their NodePool and EC2NodeClass ask for. It sets the condition Drifted of
// their NodeClaims, with Karpenter's reasons.
//
// Hash is the hash of a NodePool or EC2NodeClass. Its Renew writes a new version of it into the NodeClaims.
//
// Decide is a pure function over the facts about a claim. The reconciler runs when a claim, its NodePool or its class
// changes, and every few minutes for changes that only AWS shows.
package drift
