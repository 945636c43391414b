package day

import (
	"context"
	"math/rand/v2"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// boundEvery is how many minutes lie between two lower bounds.
const boundEvery = 30

// Lower is what no policy can beat, in USD.
type Lower struct {
	// USD of all hours.
	USD float64
	// Hours are the parts of it.
	Hours [24]float64
}

func (l *Lower) add(usd float64, minute int) {
	l.USD += usd
	l.Hours[minute/60%24] += usd
}

// Bound is what no policy can beat: the planner's lower bound for the pods that are there and the prices of the hour, over time.
func Bound(ctx context.Context, cfg Config) (Lower, error) {
	var out Lower
	last, since := 0.0, 0
	err := cfg.looks(ctx, func(c *cluster) error {
		now, err := c.bound(ctx, cfg.Commitments)
		out.add(float64(c.now-since)/60*(last+now)/2, cfg.From+since) // As if it changed evenly in between.
		last, since = now, c.now
		return err
	})
	out.add(last/60, cfg.From+since) // The last minute is paid as well.
	return out, err
}

// looks shows the pods and prices every boundEvery minutes, and in the last minute.
func (cfg Config) looks(ctx context.Context, look func(*cluster) error) error {
	prices := rand.New(rand.NewPCG(cfg.Seed, 2))
	m, err := newMarket(prices)
	if err != nil {
		return err
	}
	c, all := newCluster(ctx, m, nil), cfg.changes()
	for minute, change := range all {
		c.now = minute
		if minute%priceStep == priceStep-1 {
			drift(m, prices)
		}
		c.apply(change)
		if minute%boundEvery == 0 || minute == len(all)-1 {
			if err := look(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// bound is the sum over the NodePools, which share no pods.
func (c *cluster) bound(ctx context.Context, list []commitment.Commitment) (float64, error) {
	if len(list) > 0 {
		d, err := c.demand(ctx)
		return d.with(list), err
	}
	sum := 0.0
	for _, pool := range c.pools {
		one, err := c.boundOf(ctx, pool)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

// boundOf is that of the pods of one NodePool.
func (c *cluster) boundOf(ctx context.Context, pool *karpv1.NodePool) (float64, error) {
	own := *c.objects(nil)
	own.NodePools = []*karpv1.NodePool{pool}
	own.Pods = slices.DeleteFunc(slices.Clone(own.Pods), func(p input.Pod) bool { return p.Spec.NodeSelector[karpv1.NodePoolLabelKey] != pool.Name })
	placed, err := simulate.Run(ctx, &own, c.market, simulate.Options{PreferenceShare: 0.1})
	if err != nil {
		return 0, err
	}
	return placed.LowerBound(ctx), nil
}

// demand returns that of the pods there are.
func (c *cluster) demand(ctx context.Context) (demand, error) {
	out := demand{}
	for _, one := range []struct {
		usd        *float64
		pool, kind string
	}{{&out.steady, "steady", karpv1.CapacityTypeOnDemand}, {&out.spot, "flexible", karpv1.CapacityTypeSpot}, {&out.onDemand, "flexible", karpv1.CapacityTypeOnDemand}} {
		var err error
		if *one.usd, err = c.boundOf(ctx, nodePool(one.pool, one.kind)); err != nil {
			return out, err
		}
	}
	return out, nil
}

// leastOnDemand returns the least that the day's pods cost on demand at any time, in USD per hour.
func (cfg Config) leastOnDemand(ctx context.Context) (float64, error) {
	least := 0.0
	err := cfg.looks(ctx, func(c *cluster) error {
		d, err := c.demand(ctx)
		if sum := d.steady + d.onDemand; least == 0 || sum < least {
			least = sum
		}
		return err
	})
	return least, err
}
