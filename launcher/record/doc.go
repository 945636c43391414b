// Package record is the durable form of a planned node: it builds the NodeClaim that records a launch, and reads it back after any crash. It
// is pure; package server writes the claims, packages launch and join read them.
package record
