package top

import (
	"time"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// Snapshot is the cluster at one moment.
type Snapshot struct {
	// Overview is what `slipway status` prints.
	Overview view.Overview
	// Objects are those that it was made of.
	Objects view.Objects
}

// Config is what a view needs. Its functions may be called at the same time.
type Config struct {
	// Load reads the cluster.
	Load func() (Snapshot, error)
	// Explain returns why a pod, given as namespace/name, is pending or where it is.
	Explain func(pod string) (string, error)
	// Interval is the time from the end of one Load to the next.
	Interval time.Duration
	// Color is false for terminals and users without it: the selected row and headings have attributes alone.
	Color bool
	// ASCII draws bars without block characters.
	ASCII bool
}
