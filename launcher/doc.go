// Package launcher is slipway-launcher: it wires the controllers that record, launch, join, terminate and reclaim nodes into one process and
// runs them until its context ends. It makes no decision itself.
//
// Controllers with effects on AWS or Kubernetes act only while the scheduler in the same pod leads (package leadership); those that only
// read always run, so that a standby is ready at once.
package launcher
