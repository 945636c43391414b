// Package invariants says what must never happen in a cluster that slipway runs, whatever crashes, and what must not be left
// once everything has come to rest. It judges evidence from outside: the histories of objects, the instances of AWS, and the
// effects of each process as the taps saw them. It is pure.
package invariants
