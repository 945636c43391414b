package provision_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// A zone whose offerings failed lately, or have not settled, is no domain of a topology spread, for the plan and for the filters alike: pods are spread over the
// other zones in the first round.
func TestSpreadLeavesOutDoubtfulZones(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	spread := verifytest.Pod("web").SpreadConstraint(1, corev1.LabelTopologyZone, corev1.DoNotSchedule, st.MakeLabelSelector().Label("app", "web").Obj(), nil, nil, nil, nil)
	for name, c := range map[string]struct {
		doubt func(*catalog.Offering)
		zones int
	}{
		"on probation":  {func(o *catalog.Offering) { o.Probation = true }, 2},
		"not settled":   {func(o *catalog.Offering) { o.SettlesAt = now.Add(time.Minute) }, 2},
		"settled again": {func(o *catalog.Offering) { o.SettlesAt = now.Add(-time.Minute) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			cat := verifytest.Zones("a", "b", "c")
			c.doubt(&cat.InstanceTypes["default"][0].Offerings[2])
			p, err := provision.New(provision.Config{Verifier: verifytest.New(t)})
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Provision(t.Context(), provision.Request{
				Now: now, Classes: []plan.Class{verifytest.Class("web", 4, spread)},
				Cluster: clusterview.Source{Snapshot: internalcache.NewSnapshot(nil, nil), Catalog: cat, Pod: func(catalog.PodRef) *corev1.Pod { return nil }},
			})
			if err != nil {
				t.Fatal(err)
			}
			zones := map[string]bool{}
			for i := range r.Plan.Claims {
				zones[r.Plan.Claims[i].Expected.Zone] = true
			}
			if len(zones) != c.zones || len(r.Plan.Unplaced) > 0 || r.Rounds != 1 {
				t.Errorf("pods are in the zones %v after %d rounds, unplaced %+v; want %d zones and one round", zones, r.Rounds, r.Plan.Unplaced, c.zones)
			}
		})
	}
}
