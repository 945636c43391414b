// Package simulate answers what slipway would launch for the objects of an input, offline: with the planner and the
// scheduler's own filters that the plugin runs, on nodes that do not exist. `slipway simulate` and `slipway explain -f`
// print what it finds.
//
// The way: plugin/simulate/input reads the objects, plugin/simulate/market what can be bought; Run makes the world of
// them, has it planned and verified, and puts the answer into words and figures. It starts no goroutine of its own; the
// informers that the scheduler's plugins need, served by plugin/simulate/apiserver, end with Run.
package simulate
