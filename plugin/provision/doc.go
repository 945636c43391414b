// Package provision turns pods into a plan that passes the scheduler's filters. A snapshot of the cluster, the catalog and the
// pods go in; a verified plan comes out. The scheduler, moves, consolidation and `slipway simulate` all call it.
//
// A plan is made in rounds. The planner makes one, the filters are asked about it (package verify), and what they reject is input
// of the next round. Pods that the filters still reject are left out of the plan, with the filters' reason. At the end, those
// pods are tried once more beside the plan that passed, class by class.
//
// Two parts are packages of their own: podclass groups pods into classes, clusterview adds the nodes in flight to the cluster. A
// Provisioner serves one caller at a time. The package starts no goroutine.
package provision
