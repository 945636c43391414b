package parity_test

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// TestOptimum compares bills with the cheapest there can be, found by trying all ways to divide a few pods among nodes:
// no bound may be above it, and no bill may be far from it.
func TestOptimum(t *testing.T) {
	bubble(t, func(ctx context.Context, l *lab) {
		tried, sum, boundSum, worst, exact := 0, 0.0, 0.0, 1.0, 0
		for seed := uint64(1); tried < tinyCases; seed++ {
			c := tiny(seed)
			l.load(c)
			o, err := l.solve(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			if len(o.plan.Unplaced) > 0 || len(o.plan.Claims) == 0 {
				continue
			}
			tried++
			best := l.optimum(ctx, o)
			ratio, bound := o.plan.CostPerHour/best, plan.LowerBound(ctx, o.in, &o.plan)
			sum, boundSum, worst = sum+ratio, boundSum+bound/best, max(worst, ratio)
			if ratio < 1+cent {
				exact++
			}
			if bound > best+cent || ratio < 1-cent || ratio > maxRatio {
				t.Errorf("seed %d: the bill is %.5f, the bound %.5f, the optimum %.5f", seed, o.plan.CostPerHour, bound, best)
			}
		}
		t.Logf("%d cases: bill / optimum is %.4f on average, %.3f at worst, exact in %d; bound / optimum is %.4f", tried, sum/float64(tried), worst, exact, boundSum/float64(tried))
	})
}

const (
	// tinyCases is how many cases TestOptimum compares.
	tinyCases = cases / 20
	// maxRatio is how far a bill may be from the optimum of a tiny case, where one node more is much of the whole.
	maxRatio = 1.34
)

// tiny is the case of the seed cut down to at most six pods and four types, without what relates pods to each other.
func tiny(seed uint64) *cluster {
	c := newDice(seed).ordinary()
	c.nodes, c.types, c.preferenceShare = nil, c.types[:min(4, len(c.types))], 0
	for i := range c.types {
		c.types[i].reserved = 0 // A reservation runs out: its nodes have not one price.
	}
	c.pods = slices.DeleteFunc(c.pods, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	c.pods = c.pods[:min(6, len(c.pods))]
	for _, p := range c.pods {
		p.Spec.TopologySpreadConstraints, p.Spec.Priority = nil, nil
		delete(p.Labels, plan.LabelGang)
		if a := p.Spec.Affinity; a != nil {
			a.PodAffinity, a.PodAntiAffinity = nil, nil
		}
	}
	for i := range c.pools {
		c.pools[i].Weight, c.pools[i].Limits = 0, nil
		for k := range c.pools[i].Requirements {
			c.pools[i].Requirements[k].MinValues = 0
		}
	}
	return c
}

// optimum is the least bill for the pods of the case: each set of pods is priced by the cheapest node that holds it, and
// sets are divided in all ways.
func (l *lab) optimum(ctx context.Context, o *outcome) float64 {
	pods := o.c.pods
	price := make([]float64, 1<<len(pods))
	for set := 1; set < len(price); set++ {
		price[set] = math.Inf(1)
	}
	seen := map[string]bool{}
	for _, first := range pods {
		for _, c := range o.candidates(first, nil) {
			key := fmt.Sprint(c.pool.Name, c.node.Labels)
			if seen[key] {
				continue
			}
			seen[key] = true
			var alone int
			for i, p := range pods {
				if l.refusal(ctx, []machine{c.machine}, p, c.node.Name) == "" {
					alone |= 1 << i
				}
			}
			for set := 1; set < len(price); set++ {
				if set&^alone == 0 && c.offer.Price < price[set] && holds(c, pods, set) {
					price[set] = c.offer.Price
				}
			}
		}
	}
	best := make([]float64, len(price))
	for set := 1; set < len(best); set++ {
		best[set] = math.Inf(1)
		lowest := set & -set
		for part := set; part > 0; part = (part - 1) & set {
			if part&lowest != 0 {
				best[set] = min(best[set], price[part]+best[set&^part])
			}
		}
	}
	return best[len(best)-1]
}

// holds says that the pods of the set fit on the node together, those that fit alone.
func holds(c candidate, pods []*corev1.Pod, set int) bool {
	ni := c.info()
	have := framework.NewResource(c.node.Status.Allocatable)
	if len(ni.Pods)+bits.OnesCount(uint(set)) > have.AllowedPodNumber {
		return false
	}
	ports := map[corev1.ContainerPort]bool{}
	asked := map[corev1.ResourceName]bool{}
	for i, p := range pods {
		if set&(1<<i) == 0 {
			continue
		}
		for _, port := range p.Spec.Containers[0].Ports {
			if clashes(ports, port) {
				return false
			}
			ports[port] = true
		}
		for name := range plan.PodRequests(p) {
			asked[name] = true
		}
		ni.AddPod(p)
	}
	for name := range asked {
		if n := ni.Requested.ScalarResources[name]; n > have.ScalarResources[name] {
			return false
		}
	}
	within := func(name corev1.ResourceName, used, have int64) bool { return !asked[name] || used <= have }
	r := ni.Requested
	return within(corev1.ResourceCPU, r.MilliCPU, have.MilliCPU) && within(corev1.ResourceMemory, r.Memory, have.Memory) &&
		within(corev1.ResourceEphemeralStorage, r.EphemeralStorage, have.EphemeralStorage)
}

func clashes(taken map[corev1.ContainerPort]bool, p corev1.ContainerPort) bool {
	for q := range taken {
		if q.HostPort == p.HostPort && q.Protocol == p.Protocol && (q.HostIP == p.HostIP || q.HostIP == "" || p.HostIP == "") {
			return true
		}
	}
	return false
}
