package plugin

import (
	"context"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/devices"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// newPlanning returns a provision.Provisioner with filters of its own.
func newPlanning(ctx context.Context, args *Args, filters verify.Config) (*provision.Provisioner, error) {
	var claimed *devices.Planner
	if !*args.IgnoreDRARequests && filters.DRA != nil {
		var err error
		claimed, err = devices.New(devices.Config{
			DRA: filters.DRA, Nodes: filters.Informers.Core().V1().Nodes().Lister(), Declared: args.DeviceTemplates,
		})
		if err != nil {
			return nil, err
		}
		filters.Slices = claimed.Slices
	}
	verifier, err := verify.New(ctx, filters)
	if err != nil {
		return nil, err
	}
	return provision.New(provision.Config{Verifier: verifier, Devices: claimed, Settings: provision.Settings{
		PreferenceShare: share(args.PreferencePercent), MinValuesBestEffort: args.MinValuesPolicy == minValuesBestEffort,
		Plan: plan.Options{
			Budget: float64(*args.PlanBudget), NodeShare: share(args.NodeSharePercent),
			SpotShare: share(args.SpotSharePercent), SpotPremium: share(args.SpotPremiumPercent),
		},
	}})
}

func share(percent *int32) float64 { return float64(*percent) / 100 }

// newNames gives each claim a name that no other claim has: the pool's, cut so that the whole is a label's value.
func newNames(cat catalog.State) func(string) string {
	used := map[string]bool{}
	return func(pool string) string {
		if len(pool) > 57 {
			pool = pool[:57]
		}
		for {
			name := pool + "-" + rand.String(5)
			if _, ok := cat.InFlight[name]; !ok && !used[name] {
				used[name] = true
				return name
			}
		}
	}
}
