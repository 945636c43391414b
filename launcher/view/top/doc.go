// Package top is the terminal view of slipway's work: `slipway top`. It shows what `slipway status` prints, live, as bars, with keys to
// sort, filter and open nodes and pods.
//
// Model is pure: messages in, a screen out. It reads the cluster through the functions of its Config alone. Run gives it a
// terminal and ends with its context.
package top
