package catalog

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Learned is what nodes of one instance type and AMI have reported, one entry for each node.
type Learned []Reported

// Reported is what one node has reported.
type Reported struct {
	// MemoryBytes is the capacity of memory; 0 where the node has not reported it.
	MemoryBytes int64
	// Allocatable holds what the node leaves to pods; what it does not name, it has not reported.
	Allocatable corev1.ResourceList
}

// alone is the share, in percent, of what is computed that one node alone is believed down to. For less it takes two nodes:
// whoever is root on one can let its kubelet report anything.
const alone = 75

// memory returns the capacity of memory in bytes that counts in place of what is computed; false where no node has reported.
func (l Learned) memory(computed int64) (int64, bool) {
	var reports []resource.Quantity
	for _, r := range l {
		if r.MemoryBytes > 0 {
			reports = append(reports, *resource.NewQuantity(r.MemoryBytes, resource.BinarySI))
		}
	}
	q, ok := agreed(corev1.ResourceMemory, reports, *resource.NewQuantity(computed, resource.BinarySI))
	return q.Value(), ok
}

// allocatable returns how much of a resource counts in place of what is computed; false where no node has reported.
func (l Learned) allocatable(name corev1.ResourceName, computed resource.Quantity) (resource.Quantity, bool) {
	var reports []resource.Quantity
	for _, r := range l {
		if q, ok := r.Allocatable[name]; ok {
			reports = append(reports, q)
		}
	}
	return agreed(name, reports, computed)
}

// agreed returns the least that is reported, as far as it is believed: one node alone down to its share of what is computed, below
// that the most of what the lowest two report.
func agreed(name corev1.ResourceName, reports []resource.Quantity, computed resource.Quantity) (resource.Quantity, bool) {
	if len(reports) == 0 {
		return resource.Quantity{}, false
	}
	slices.SortFunc(reports, func(a, b resource.Quantity) int { return a.Cmp(b) })
	floor := share(name, computed)
	switch {
	case reports[0].Cmp(floor) >= 0:
		return reports[0], true
	case len(reports) > 1 && reports[1].Cmp(floor) < 0:
		return reports[1], true
	default:
		return floor, true
	}
}

// share is whole units, of CPU thousandths.
func share(name corev1.ResourceName, q resource.Quantity) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(q.MilliValue()*alone/100, q.Format)
	}
	return *resource.NewQuantity(q.Value()/100*alone+q.Value()%100*alone/100, q.Format)
}
