package consolidate

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Weight returns the weight of a pod's eviction, after Karpenter's EvictionCost (pkg/utils/disruption): 1, more for a high
// priority or deletion cost, less for a low one. Karpenter's is between -10 and 10; this one is never below zero.
func Weight(p *corev1.Pod) float64 {
	out := 1.0
	// The API server refuses what is no 32-bit integer; files have what they have.
	if cost, err := strconv.ParseFloat(p.Annotations[corev1.PodDeletionCost], 64); err == nil && !math.IsNaN(cost) && !math.IsInf(cost, 0) {
		out += cost / (1 << 27)
	}
	if p.Spec.Priority != nil {
		out += float64(*p.Spec.Priority) / (1 << 25)
	}
	return min(max(out, 0), 10)
}

// Fresh returns how many times more it costs to move a pod that has run for a short time: twice as much at the given age, and
// more for a younger pod. Such a pod has just been moved, or its load comes and goes, so that what its move saves may not last.
// So no pod moves again and again.
func Fresh(p *corev1.Pod, now time.Time, age time.Duration) float64 {
	start := p.CreationTimestamp
	if p.Status.StartTime != nil {
		start = *p.Status.StartTime
	}
	if start.IsZero() {
		return 1
	}
	return 1 + float64(age)/float64(max(now.Sub(start.Time), time.Minute))
}

// Used returns the larger of the shares of a node's cpu and memory that its pods request, 0 to 1.
func Used(n *corev1.Node, pods []*corev1.Pod) float64 {
	share := 0.0
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		have, sum := n.Status.Allocatable.Name(name, "").AsApproximateFloat64(), 0.0
		for _, p := range pods {
			for i := range p.Spec.Containers {
				sum += p.Spec.Containers[i].Resources.Requests.Name(name, "").AsApproximateFloat64()
			}
		}
		if have > 0 {
			share = max(share, sum/have)
		}
	}
	return min(share, 1)
}

// RequestedCPU returns the CPU that a pod requests, in thousandths.
func RequestedCPU(p *corev1.Pod) int64 {
	if len(p.Spec.InitContainers) == 0 && len(p.Spec.Overhead) == 0 && p.Spec.Resources == nil { // Most pods, without a map for each.
		sum := int64(0)
		for i := range p.Spec.Containers {
			sum += p.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
		}
		return sum
	}
	requests := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	return requests.Cpu().MilliValue()
}

// SetPrice sets what the node costs by the catalog while these pods run on it, those of DaemonSets included. It follows the class of the node's
// NodePool, or any other class where that one has no such offering. The price is 0 if none has it.
func (n *Node) SetPrice(cat catalog.State, pods []*corev1.Pod) {
	n.CPU, n.Overlaid, n.LossPerPod = 0, false, 0
	for _, p := range pods {
		n.CPU += RequestedCPU(p)
	}
	pool := cat.NodePools[n.NodePool]
	classes := append([]string{pool.TypesKey()}, slices.Sorted(maps.Keys(cat.InstanceTypes))...)
	for _, class := range classes {
		if it, of := offered(cat.InstanceTypes[class], n.Offer); of.Price > 0 {
			n.Charges, n.Overlaid, n.LossPerPod = it.Charges.Assuming(pool.IdleCPU), of.Overlaid, of.LossPerPod
			n.Price = of.Price + pool.NodeCost + n.Charges.Burst(n.CPU) + n.LossPerPod*float64(len(n.Pods))
			return
		}
	}
	n.Price, n.Charges = 0, catalog.Charges{}
}

// offered returns the instance type of the offer, and the offering; zero if no type has it.
func offered(types []catalog.InstanceType, o Offer) (*catalog.InstanceType, catalog.Offering) {
	for i := range types {
		if types[i].Name != o.InstanceType {
			continue
		}
		for _, of := range types[i].Offerings {
			if of.Zone == o.Zone && of.CapacityType == o.CapacityType {
				return &types[i], of
			}
		}
	}
	return nil, catalog.Offering{}
}
