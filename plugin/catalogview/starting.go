package catalogview

import (
	"maps"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// startWithin is how long a NodePool that is created may take until it is ready: AWS is asked for the images and subnets of its EC2NodeClass.
const startWithin = 10 * time.Second

// startingPools is when NodePools came into the catalog that have not been ready since, by name.
type startingPools map[string]time.Time

// received compares the catalog with the one before. A NodePool that was not in that one has just been created, if that one was received at all.
func (s startingPools) received(before, after catalog.State, synced bool, now time.Time) {
	maps.DeleteFunc(s, func(name string, _ time.Time) bool {
		pool, ok := after.NodePools[name]
		return !ok || pool.Ready
	})
	for name, pool := range after.NodePools {
		if _, known := before.NodePools[name]; synced && !known && !pool.Ready {
			s[name] = now
		}
	}
}

// until returns when the last NodePool that one of the reasons is about has had its time to become ready; zero if none has any left.
func (s startingPools) until(reasons []plan.Reason, now time.Time) time.Time {
	var last time.Time
	for _, r := range reasons {
		since, starts := s[r.NodePool]
		if end := since.Add(startWithin); starts && r.Code == plan.NotReady && end.After(now) && end.After(last) {
			last = end
		}
	}
	return last
}
