// Package builtin is slipway's built-in catalog: EC2's instance types for Linux nodes and their on-demand prices in us-east-1. It is used if
// AWS is not asked: by `slipway simulate` without files, by a launcher whose VPC cannot reach the Price List API, and by the sandbox's AWS.
//
// The facts are a table of families (families.txt). The limits of a type's network interfaces come from AWS's own list for its VPC
// controller. Spot prices are not included: they change by the hour. The package is pure and has no state.
package builtin
