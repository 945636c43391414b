// Package plan decides which nodes to launch for a batch of unschedulable pods, and which pods go where. It is a pure
// function over plain data: same input, same plan; no clock, no goroutine, no client. It knows Kubernetes' API types and
// launcher/catalog, and nothing else of the project.
//
// Make is read from the top: compile (model.go, fit.go, topology.go, company.go) turns the input into small integers;
// rooms.go fills nodes on their way; units.go and bundles.go give pods their domains and their companions; pack.go and problem.go
// have plugin/plan/binpack pack item types of them into bins, which are the offers;
// diversify.go spreads spot nodes; claims.go writes the result; reasons.go says why
// for the rest. LowerBound (lowerbound.go) says what no plan can be cheaper than. testdata/README.md says how to add a case.
package plan
