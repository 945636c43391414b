// Package provision turns pods into a plan that the scheduler's filters let pass: a snapshot of the cluster, the catalog
// and the pods go in, a verified plan comes out. The scheduler, moves, consolidation and `slipway simulate` all call it.
//
// A plan is made in rounds. The planner makes one, the filters are asked about it (package verify), and what they reject
// goes into the next round. Pods that the filters reject in spite of that are left out with the filters' reason. On the
// plan that passes, those pods are tried once more, class by class.
//
// What is planned with is in packages of its own: podclass groups pods into classes, clusterview is the cluster with its
// nodes in flight. A Provisioner is for one caller at a time. The package starts no goroutine.
package provision
