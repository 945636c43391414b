package bill

import (
	"cmp"
	"slices"
	"strings"
)

// The weights of a node's resources are their prices on AWS, in USD per hour: of a vCPU and a GiB as the on-demand prices of the families c, m and
// r of one generation give them, and of an accelerator that costs many times as much.
const (
	usdPerCPU         = 0.0316
	usdPerGiB         = 0.0042
	usdPerAccelerator = 0.95
)

// shares returns the share of the node that each pod requests, and what its CPU costs beyond the baseline, in USD per hour. The pods are in the
// order in which they came.
func (n *Node) shares() (shares, bursts []float64) {
	weights := [3]float64{
		float64(n.Allocatable.CPU) / 1000 * usdPerCPU, float64(n.Allocatable.Memory) / (1 << 30) * usdPerGiB,
		float64(n.Allocatable.Accelerators) * usdPerAccelerator,
	}
	sum := weights[0] + weights[1] + weights[2]
	left := n.Allocatable
	shares, bursts = make([]float64, len(n.Pods)), make([]float64, len(n.Pods))
	cpu := int64(0)
	for i := range n.Pods {
		take := n.Pods[i].Requests.atMost(left)
		left = Amounts{left.CPU - take.CPU, left.Memory - take.Memory, left.Accelerators - take.Accelerators}
		for k, part := range [3]float64{
			portion(take.CPU, n.Allocatable.CPU), portion(take.Memory, n.Allocatable.Memory), portion(take.Accelerators, n.Allocatable.Accelerators),
		} {
			if sum > 0 {
				shares[i] += part * weights[k] / sum
			}
		}
		bursts[i] = n.Burst.Burst(cpu+take.CPU) - n.Burst.Burst(cpu)
		cpu += take.CPU
	}
	return shares, bursts
}

// atMost returns the amounts, none above those that are left, and none below 0.
func (a Amounts) atMost(left Amounts) Amounts {
	bound := func(x, most int64) int64 { return max(min(x, most), 0) }
	return Amounts{bound(a.CPU, left.CPU), bound(a.Memory, left.Memory), bound(a.Accelerators, left.Accelerators)}
}

func portion(x, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(x) / float64(of)
}

// InOrder returns pods in the order in which they came to their node, as a Ledger wants them: the same list if they are.
func InOrder(pods []Pod) []Pod {
	order := func(a, b Pod) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.UID, b.UID)) }
	if slices.IsSortedFunc(pods, order) {
		return pods
	}
	out := slices.Clone(pods)
	slices.SortFunc(out, order)
	return out
}
