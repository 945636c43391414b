package plan

import (
	"maps"
	mathbits "math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// PodRequests is what the scheduler counts for a pod: its containers, sidecars, the largest init container, pod-level
// requests and the overhead of its RuntimeClass; of a pod that is being resized in place the larger of what it has and
// what it asks for.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return podresource.PodRequests(pod, podresource.PodResourcesOptions{UseStatusResources: true})
}

// vec is quantities by dimension: thousandths for cpu, units for all others.
type vec []int64

// The dimensions that every plan has; those of extended resources follow.
const (
	dimPods = iota
	dimCPU
	dimMemory
	dimStorage
	dimFirstExtended
)

// dims says which resource each dimension of a vec is.
type dims []corev1.ResourceName

// newDims has the fixed dimensions and, sorted, each other resource that one of the lists asks for, and the others given.
func newDims(lists []corev1.ResourceList, others []corev1.ResourceName) dims {
	d := dims{
		dimPods: corev1.ResourcePods, dimCPU: corev1.ResourceCPU,
		dimMemory: corev1.ResourceMemory, dimStorage: corev1.ResourceEphemeralStorage,
	}
	for _, list := range lists {
		for name, q := range list {
			if !q.IsZero() && !slices.Contains(d, name) {
				d = append(d, name)
			}
		}
	}
	for _, name := range others {
		if !slices.Contains(d, name) {
			d = append(d, name)
		}
	}
	slices.Sort(d[dimFirstExtended:])
	return d
}

// vec is the quantities of the list; one pod where the list is a pod's.
func (d dims) vec(list corev1.ResourceList) vec {
	v := make(vec, len(d))
	for i, name := range d {
		if q, ok := list[name]; ok {
			v[i] = amount(name, q)
		}
	}
	return v
}

// pod is the vec of a pod's requests, itself counted under `pods`.
func (d dims) pod(pod *corev1.Pod) vec {
	v := d.vec(PodRequests(pod))
	v[dimPods] = 1
	return v
}

// node is the vec of what a node has, volumes that it can attach included; a driver without a limit never runs out.
func (d dims) node(list corev1.ResourceList, limits map[string]int64) vec {
	v := d.vec(list)
	for i, name := range d {
		if driver, ok := strings.CutPrefix(string(name), attachPrefix); ok {
			v[i] = unlimited
			if n, ok := limits[driver]; ok {
				v[i] = n
			}
		}
	}
	return v
}

// list is the inverse of vec; zero quantities and volumes are left out.
func (d dims) list(v vec) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, name := range d {
		if v[i] != 0 && !strings.HasPrefix(string(name), attachPrefix) {
			out[name] = *quantity(name, v[i])
		}
	}
	return out
}

func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func quantity(name corev1.ResourceName, n int64) *resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return resource.NewQuantity(n, resource.BinarySI)
	default:
		return resource.NewQuantity(n, resource.DecimalSI)
	}
}

// add adds n times o.
func (v vec) add(o vec, n int64) {
	for i := range v {
		v[i] += n * o[i]
	}
}

func (v vec) clone() vec { return slices.Clone(v) }

// times is how often need fits into v. A dimension that is not asked for does not count, even where it is overdrawn:
// so does the scheduler.
func (v vec) times(need vec) int {
	best := int64(1) << 31
	for i, n := range need {
		if n > 0 {
			best = min(best, max(v[i], 0)/n)
		}
	}
	return int(best)
}

// holds says that sum fits into v.
func (v vec) holds(sum vec) bool {
	for i, n := range sum {
		if n > 0 && n > v[i] {
			return false
		}
	}
	return true
}

// bits is a set of small integers.
type bits []uint64

func newBits(n int) bits      { return make(bits, (n+63)/64) }
func (b bits) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b bits) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bits) clone() bits    { return slices.Clone(b) }

// and keeps what is in o as well.
func (b bits) and(o bits) {
	for i := range b {
		b[i] &= o[i]
	}
}

// or adds what is in o.
func (b bits) or(o bits) {
	for i := range b {
		b[i] |= o[i]
	}
}

// each calls do for what is in b, in order.
func (b bits) each(do func(i int)) {
	for w, word := range b {
		for ; word != 0; word &= word - 1 {
			do(w<<6 + mathbits.TrailingZeros64(word))
		}
	}
}

func (b bits) empty() bool {
	return !slices.ContainsFunc(b, func(w uint64) bool { return w != 0 })
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
