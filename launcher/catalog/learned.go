package catalog

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Learned holds the reports of nodes of one instance type and AMI, one entry for each node.
type Learned []Reported

// Reported holds the values that one node has reported.
type Reported struct {
	// MemoryBytes is the capacity of memory; 0 if the node has not reported it.
	MemoryBytes int64
	// Allocatable holds the node's allocatable resources; a resource without an entry was not reported.
	Allocatable corev1.ResourceList
}

// alone is the lowest share, in percent, of a computed value that the report of a single node may lower it to. A lower value needs the
// reports of two nodes, because root on one node can make its kubelet report anything.
const alone = 75

// memory returns the capacity of memory in bytes that replaces the computed one; false if no node has reported.
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

// allocatable returns the amount of a resource that replaces the computed one; false if no node has reported.
func (l Learned) allocatable(name corev1.ResourceName, computed resource.Quantity) (resource.Quantity, bool) {
	var reports []resource.Quantity
	for _, r := range l {
		if q, ok := r.Allocatable[name]; ok {
			reports = append(reports, q)
		}
	}
	return agreed(name, reports, computed)
}

// agreed returns the lowest trusted report. A single node can lower the computed value to its share alone; below that, the higher of the two
// lowest reports counts.
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

// share returns alone percent of q, in whole units, or in thousandths for CPU.
func share(name corev1.ResourceName, q resource.Quantity) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(q.MilliValue()*alone/100, q.Format)
	}
	return *resource.NewQuantity(q.Value()/100*alone+q.Value()%100*alone/100, q.Format)
}
