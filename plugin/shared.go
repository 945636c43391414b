package plugin

import (
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// shared is what the scheduling goroutine and the planner share. All of it is safe for concurrent use.
type shared struct {
	guard      *guard
	metrics    *metrics
	collected  *intake.Collector
	promises   *promise.Table
	inbox      *inbox
	connection *connection
	begins     *beginning
	delays     *delays
}

// observed is what the plugins and the planner see of the cluster.
type observed struct {
	objects  *objects
	reserved *reservations.Table
	shares   *onDemandShares
	sleep    *sleepers
}
