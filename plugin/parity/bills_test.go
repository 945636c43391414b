package parity_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const cent = 1e-6

// billAndBound: the bill is the sum of the claims' prices, and no less than the bound.
func billAndBound(ctx context.Context, _ *lab, o *outcome) []string {
	sum := 0.0
	for _, c := range o.plan.Claims {
		sum += c.Expected.Price
	}
	var out []string
	if math.Abs(sum-o.plan.CostPerHour) > cent {
		out = append(out, fmt.Sprintf("costPerHour %.6f, the claims cost %.6f", o.plan.CostPerHour, sum))
	}
	if bound := plan.LowerBound(ctx, o.in, &o.plan); bound > o.plan.CostPerHour+cent {
		out = append(out, fmt.Sprintf("lowerBoundPerHour %.6f is above costPerHour %.6f", bound, o.plan.CostPerHour))
	}
	return out
}

// withinLimits: even if EC2 picks the largest alternative of each claim.
func withinLimits(_ context.Context, _ *lab, o *outcome) []string {
	var out []string
	for _, pool := range o.state.NodePools {
		for name, limit := range pool.Limits {
			used := pool.Usage[name]
			sum := used.DeepCopy()
			for i := range o.plan.Claims {
				if c := &o.plan.Claims[i]; c.NodePool == pool.Name {
					sum.Add(o.largest(c, name))
				}
			}
			if sum.Cmp(limit) > 0 && sum.Cmp(used) > 0 {
				out = append(out, fmt.Sprintf("pool %s: %s %s used of %s", pool.Name, name, sum.String(), limit.String()))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (o *outcome) largest(c *plan.Claim, name corev1.ResourceName) resource.Quantity {
	if name == "nodes" {
		return quantity(1)
	}
	var most resource.Quantity
	for _, alt := range c.Alternatives {
		_, it := o.instance(c, alt)
		if q := it.Capacity[name]; q.Cmp(most) > 0 {
			most = q
		}
	}
	return most
}

// withinReservations: no more nodes are expected of a capacity reservation than it holds.
func withinReservations(_ context.Context, _ *lab, o *outcome) []string {
	taken := map[string]int64{}
	for i := range o.plan.Claims {
		if c := &o.plan.Claims[i]; c.Expected.CapacityType == "reserved" {
			taken[c.Expected.InstanceType]++
		}
	}
	var out []string
	for _, t := range o.c.types {
		if taken[t.Name] > t.reserved {
			out = append(out, fmt.Sprintf("%d nodes of a reservation of %d %s", taken[t.Name], t.reserved, t.Name))
		}
	}
	return out
}

// devicesDeclined: pods with ResourceClaims are left out for that reason, which names the claim, whatever else they ask for.
func devicesDeclined(_ context.Context, _ *lab, o *outcome) []string {
	var out []string
	for _, u := range o.plan.Unplaced {
		pod := o.pending[u.Pods[0].UID]
		declined := u.Reasons[0].Code == "NotSupported" && strings.Contains(u.Reasons[0].Message, "gpu")
		if asks := len(pod.Spec.ResourceClaims) > 0; asks != declined && u.Reasons[0].Code != "GangIncomplete" {
			out = append(out, fmt.Sprintf("pod %s with %d ResourceClaims: %+v", pod.Name, len(pod.Spec.ResourceClaims), u.Reasons))
		}
	}
	for _, c := range o.plan.Claims {
		for _, p := range o.members(c.Members) {
			if len(p.Spec.ResourceClaims) > 0 {
				out = append(out, fmt.Sprintf("pod %s has a ResourceClaim and is on %s", p.Name, c.Name))
			}
		}
	}
	return out
}

// minValuesHold: the alternatives of each claim keep as many distinct values as the pool asks for.
func minValuesHold(_ context.Context, _ *lab, o *outcome) []string {
	var out []string
	for i := range o.plan.Claims {
		c := &o.plan.Claims[i]
		for _, r := range o.state.NodePools[c.NodePool].Requirements {
			if n := o.distinct(c, r); n < int(r.MinValues) {
				out = append(out, fmt.Sprintf("claim %s: %d values of %s, minValues %d", c.Name, n, r.Key, r.MinValues))
			}
		}
	}
	return out
}

func (o *outcome) distinct(c *plan.Claim, r catalog.Requirement) int {
	seen := map[string]bool{}
	for _, of := range o.offersOf(c) {
		if m, err := o.launched(c, of); err == nil {
			if v, ok := m.node.Labels[catalog.NormalKey(r.Key)]; ok {
				seen[v] = true
			}
		}
	}
	return len(seen)
}
