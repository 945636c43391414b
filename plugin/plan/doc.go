// Package plan decides which nodes to launch for a batch of unschedulable pods, and which pods go where. It is a pure
// function over plain data: same input, same plan; no clock, no goroutine, no client. It knows Kubernetes' API types and
// launcher/catalog, and nothing else of the project but the packages below it.
//
// Make (preferences.go) is read from the top: preferences, then tiers of priority (priorities.go), then attempts to place what is
// left (second.go), then one plan (make.go). One plan is a model (model.go) that runs its parts in order. Each part is a type with the
// fields that it needs:
//
//   - market (market.go, offers.go): NodePools, instance types and offers, found by labels (matching.go), size (sizes.go) and
//     domain (places.go). supplies (supplies.go, commitments.go) and probation (probation.go) are part of what can be bought.
//   - relations (plugin/plan/relations): spread, affinity and anti-affinity, the pods that they count, and which domains they permit.
//     openDomains (opendomains.go) adds the domains that new nodes open.
//   - fitter (fit.go): the offers whose nodes can run a pod of a class, DaemonSets included.
//   - roomFiller (rooms.go): pods onto nodes that exist or are in flight.
//   - placer (units.go, domains.go, seeds.go): each pod's zone, or other domain.
//   - colocation (colocation.go, nodelimits.go): pods that share a node as one unit, and limits of one node.
//   - problem (problem.go, pack.go): items and bins for plugin/plan/binpack, which finds the nodes.
//   - spotSpread (diversify.go): spot nodes over types and zones, and bare metal for the pods that need it.
//   - claimForms (forms.go, alternatives.go, minvalues.go): what claims ask for; claims.go writes them.
//   - explainer (reasons.go): why pods have no node. gangRules (gangs.go): gangs that are whole.
//
// LowerBound (lowerbound.go) says what no plan can be cheaper than. testdata/README.md says how to add a case.
package plan
