// Package interruption learns how often EC2 interrupts spot instances, by instance type and zone: interruptions per hour of an instance, weighted
// exponentially less the longer ago they were, beside a prior. It is pure: observations of nodes become rates, which are kept small and encoded.
//
// The estimate is the mean of a Gamma distribution whose prior is worth PriorHours of an instance: (seen interruptions + prior rate x PriorHours) /
// (seen hours + PriorHours). With few hours it is the prior, with many it is what this cluster saw.
//
// Beside the rate it learns how long nodes last that are launched after an outage: a market that comes and goes is not worth moving to, whatever it costs.
package interruption
