// Package binpack packs items into bins of many types for as few dollars as it finds, and proves what no packing can be
// cheaper than: vector bin packing with variable bin sizes and costs (Panigrahy et al. 2011). It knows vectors, sets and
// prices, and nothing of Kubernetes. It is a pure function: same input, same packing; no clock, no goroutine.
//
// Solve (pack.go) takes item types (need, count, the candidate bins that fit, the caps that concern them), candidate bins
// (price, size, usage of the limits of their pool) and a budget of work. The steps:
//
//  1. Candidates that another one dominates are dropped; what is left are the bin types (bintype.go).
//  2. First fit decreasing gives a first packing, which is the answer if the budget is spent (firstfit.go).
//  3. Item types that differ only in what they tolerate are aggregated to rows (rows.go).
//  4. The covering program over patterns is solved: as few dollars as possible for patterns, taken fractional times, that
//     hold all items. Patterns are found by column generation (program.go, master.go; Gilmore and Gomory 1961), at
//     values between the duals and a stabilization center (Wentges 1997). A pattern pays if its reduced cost is
//     negative, that is if its value per dollar is above 1.
//  5. The pricing problem, the most valuable content of one bin, is a multi-dimensional knapsack. A surrogate relaxation
//     bounds it (knapsack.go), heuristics fill it (fill.go), dynamic programming with Lagrangian prices for the
//     dimensions that are left out solves it (dp.go, dpbound.go); pricing.go chooses.
//  6. Where there are too many rows for patterns, the duals of the LP relaxation with divisible items stand in: resource
//     prices by dual ascent (dualascent.go, divisible.go).
//  7. Values, scaled until no bin holds more value than it costs, prove a lower bound (Farley 1990; pricing.go, bound.go).
//     Where they come from rows or from a program that was not solved, they are made feasible first (feasible.go).
//  8. The whole part of the program's patterns is used, and a lazy greedy set cover packs the rest (greedy.go).
//  9. A large neighborhood search makes the packing cheaper: ruin some boxes, recreate them (search.go; Shaw 1998,
//     Schrimpf et al. 2000). Boxes are merged where that costs next to nothing (merge.go).
//
// Work is counted in steps (meter.go) that the budget of the whole question bounds as well. Every loop that can be long ends
// with its best valid answer when the budget is spent.
package binpack
