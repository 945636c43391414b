// Package instancetypes is the market of the simulated region: which instance types there are, what they cost on demand
// and on the spot market, and in which zones they are offered. The facts and the on-demand prices are slipway's built-in
// catalogue (launcher/catalog/builtin).
//
// It is pure: a Table does not change after New, and spot prices are a function of seed, type, zone and time.
package instancetypes
