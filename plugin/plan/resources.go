package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// PodRequests is what the scheduler counts for a pod: its containers, sidecars, the largest init container, pod-level
// requests and the overhead of its RuntimeClass; of a pod that is being resized in place the larger of what it has and
// what it asks for. The list may be that of the pod's container: callers do not change it.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	spec, status := &pod.Spec, &pod.Status
	if len(spec.Containers) == 1 && len(spec.InitContainers) == 0 && spec.Overhead == nil && spec.Resources == nil && len(status.ContainerStatuses) == 0 {
		// Most pending pods are like that, and the sum takes five maps.
		return spec.Containers[0].Resources.Requests
	}
	if spec.Resources != nil {
		// Requests of the pod itself are not copied there: adding the overhead to one beyond an int64 would change the pod.
		own := *pod
		own.Spec.Resources = pod.Spec.Resources.DeepCopy()
		pod = &own
	}
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

// newDims returns the fixed dimensions and, sorted, each other resource that one of the lists asks for and that is offered, and the
// others given. A resource that is offered nowhere is no dimension: what asks for it goes nowhere, and costs no other class a comparison.
func newDims(lists []corev1.ResourceList, offered map[corev1.ResourceName]bool, others []corev1.ResourceName) dims {
	d := dims{
		dimPods: corev1.ResourcePods, dimCPU: corev1.ResourceCPU,
		dimMemory: corev1.ResourceMemory, dimStorage: corev1.ResourceEphemeralStorage,
	}
	for _, list := range lists {
		for name, q := range list {
			if offered[name] && !q.IsZero() && !slices.Contains(d, name) {
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
func (d dims) pod(requests corev1.ResourceList) vec {
	v := d.vec(requests)
	v[dimPods] = 1
	return v
}

// lacking returns the first resource, by name, of a pod's requests that is no dimension; empty for none.
func (d dims) lacking(requests corev1.ResourceList) corev1.ResourceName {
	for _, name := range sortedNames(requests) {
		if q := requests[name]; q.Sign() > 0 && !slices.Contains(d, name) {
			return name
		}
	}
	return ""
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

// maxAmount is the largest quantity that counts, in thousandths for cpu and in units for all others: 2^53, up to which a float64 has all
// integers. Larger ones saturate; Quantity's own conversions wrap around (kubernetes/kubernetes#128684).
const maxAmount = 1 << 53

// amount returns the quantity, at most maxAmount either way.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if q.CmpInt64(maxAmount) > 0 {
		return maxAmount
	}
	if q.CmpInt64(-maxAmount) < 0 {
		return -maxAmount
	}
	if name == catalog.LimitUSD {
		return catalog.MicroUSDOf(q)
	}
	if name == corev1.ResourceCPU {
		if q.CmpInt64(maxAmount/1000+1) > 0 {
			return maxAmount
		}
		if q.CmpInt64(-maxAmount/1000-1) < 0 {
			return -maxAmount
		}
		return min(max(q.MilliValue(), -maxAmount), maxAmount)
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

// add adds n times o. Sums saturate.
func (v vec) add(o vec, n int64) {
	for i := range v {
		v[i] = addTimes(v[i], o[i], n)
	}
}

// saturated is the bound of a sum, either way: twice as much is an int64 still.
const saturated = 1 << 62

// addTimes returns sum + n*x, saturated.
func addTimes(sum, x, n int64) int64 {
	if x > 1<<40 || x < -1<<40 || n > 1<<20 || n < -1<<20 {
		product := float64(x) * float64(n)
		if product > saturated {
			return saturated
		}
		if product < -saturated {
			return -saturated
		}
	}
	return min(max(sum+x*n, -saturated), saturated)
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

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// share is the largest fraction of any resource that need takes of free.
func share(need, free vec) float64 {
	s := 0.0
	for d, n := range need {
		if n > 0 {
			s = max(s, float64(n)/float64(max(free[d], 1)))
		}
	}
	return s
}

const (
	// attachPrefix begins the name of the dimension that counts the volumes of a CSI driver on a node.
	attachPrefix = "attachable-volumes-csi-"
	// driverEBS is the CSI driver whose limit EC2 instance types have.
	driverEBS = "ebs.csi.aws.com"
	// unlimited is more than any node can have of anything.
	unlimited = int64(1) << 40
	// maxTerms bounds the alternatives that the volumes of one pod may add up to.
	maxTerms = 256
)

// attachLimits is how many volumes a new node of the type can attach, by driver.
func attachLimits(it *catalog.InstanceType) map[string]int64 {
	if it.VolumeAttachments <= 0 {
		return nil
	}
	return map[string]int64{driverEBS: it.VolumeAttachments}
}
