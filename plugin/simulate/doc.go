// Package simulate computes offline what slipway would launch for the objects of an input. It runs the planner and the
// scheduler's own filters, as the plugin does, on nodes that do not exist. `slipway simulate` and `slipway explain -f` print the
// outcome.
//
// plugin/simulate/input reads the objects, plugin/simulate/market what can be bought. Run makes a cluster of them, plans and
// verifies, and returns the outcome. The package starts no goroutine of its own. The informers that the scheduler's plugins need,
// served by plugin/simulate/apiserver, end with Run.
package simulate
