package main

import "time"

// options are the flags.
type options struct {
	// suite is the last part of the package's path: regression or performance.
	suite string
	// focus and skip are regular expressions over the full names of the cases; empty means all and none.
	focus, skip string
	// speed divides the delays of AWS and of machines.
	speed float64
	// binDir has slipway's binaries.
	binDir string
	// out gets the suite's binary, its output, its report and slipway's logs.
	out string
	// timeout is for all cases of the suite.
	timeout time.Duration
}
