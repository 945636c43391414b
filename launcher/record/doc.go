// Package record is the durable form of a planned node: it makes the NodeClaim that a launch is recorded in, and reads it back
// after any crash. It is pure; package server writes what it makes, packages launch and join read it.
package record
