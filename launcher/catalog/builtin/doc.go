// Package builtin is the catalogue that slipway brings along: what EC2's instance types for Linux nodes are and what
// they cost on demand in us-east-1. It serves where AWS is not asked: `slipway simulate` without files, a launcher whose
// VPC reaches no Price List API, and the sandbox's AWS.
//
// The facts are a table of families (families.txt); what the network interfaces of a type can do comes from AWS's own
// list for its VPC controller. Spot prices are not in it: they change by the hour. It is pure and has no state.
package builtin
