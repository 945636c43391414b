// Package repair replaces nodes that do not work: a Node whose conditions have said so for as long as Policies tolerates it is ended
// at once, whatever budgets and do-not-disrupt say, with room for its pods planned first. Where more than a fifth of the nodes of a
// NodePool are sick nothing is: it is not the nodes then. It is behind Karpenter's feature gate NodeRepair.
//
// Find, Decide and TooMany are pure functions; the reconciler looks at each Node when its conditions change and when it is due.
//
// Goroutines: the controller's. All effects run under leadership.
package repair
