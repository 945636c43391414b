// Package window has the times at which other figures than those of its spec hold for a NodePool or a CapacityBuffer. The package is pure.
package window
