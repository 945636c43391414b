// Package spottrace replays traces of spot markets, price and availability by instance type, zone and five minutes, over the code that decides in a
// cluster: plugin/simulate plans and verifies what is launched, plugin/consolidate what is given up, launcher/catalog/interruption learns. One
// Deployment with a minimum on-demand share runs all the time. Its bill is compared with that of an oracle, and the minutes are counted in which
// fewer pods ran than the share demands.
//
// The replay knows prices, but not availability: it tries an offering and is refused, and its nodes are interrupted with two minutes' notice. The
// oracle knows both, moves pods at no cost, and pays in each step no more than the planner proves that any nodes for the pods cost.
//
// Generate makes traces from a seed, Read reads recorded ones; `make spot-traces` replays both. The package has no goroutines of its own.
package spottrace
