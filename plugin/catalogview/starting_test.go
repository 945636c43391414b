package catalogview

import (
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// A NodePool that is created has a moment to become ready before pods say that it is not. One that was ready has none, and neither has one that may be
// old, nor one that the pod itself keeps off.
func TestStartingNodePools(t *testing.T) {
	created := time.Unix(1000, 0)
	unready := func(p *catalog.NodePool, _ *catalog.InstanceType) { p.Ready = false }
	none := catalog.State{}
	about := func(code string) plan.Unplaced {
		return plan.Unplaced{Reasons: []plan.Reason{{Code: code}, {NodePool: "p", Code: code}}}
	}
	end := created.Add(startWithin)
	for name, tc := range map[string]struct {
		states   []catalog.State
		unplaced plan.Unplaced
		now      time.Time
		want     time.Time
	}{
		"created":             {[]catalog.State{none, smallCatalog(unready)}, about(plan.NotReady), created, end},
		"still not ready":     {[]catalog.State{none, smallCatalog(unready), smallCatalog(unready)}, about(plan.NotReady), end.Add(-1), end},
		"not ready for long":  {[]catalog.State{none, smallCatalog(unready)}, about(plan.NotReady), end, time.Time{}},
		"kept off by the pod": {[]catalog.State{none, smallCatalog(unready)}, about(plan.NotSelected), created, time.Time{}},
		"may be old":          {[]catalog.State{smallCatalog(unready)}, about(plan.NotReady), created, time.Time{}},
		"was ready":           {[]catalog.State{none, smallCatalog(nil), smallCatalog(unready)}, about(plan.NotReady), created, time.Time{}},
		"became ready":        {[]catalog.State{none, smallCatalog(unready), smallCatalog(nil), smallCatalog(unready)}, about(plan.NotReady), created, time.Time{}},
		"deleted":             {[]catalog.State{none, smallCatalog(unready), none}, about(plan.NotReady), created, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			v := New()
			for _, state := range tc.states {
				v.Receive(state, created)
				v.Resync(created)
			}
			if got := v.Starting(tc.unplaced, tc.now); !got.Equal(tc.want) {
				t.Errorf("starts until %s, want %s", got, tc.want)
			}
		})
	}
}
