// Package launcher is slipway-launcher: it wires the controllers that record, launch, join, end and reclaim nodes into one
// process and runs them until its context ends. It decides nothing itself.
//
// What acts on AWS or Kubernetes acts only while the scheduler beside it leads (package leadership); what only reads runs
// always, so that a standby is ready at once.
package launcher
