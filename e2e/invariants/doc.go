// Package invariants lists what must never happen in a cluster that slipway runs, whatever crashes, and what must hold once
// the cluster is at rest. It checks evidence from outside: the histories of objects, the instances of AWS, and the effects
// of each process as the taps recorded them. It is pure.
package invariants
