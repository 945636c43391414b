package plan

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// leftFree is the part of a node that DaemonSets outside of kube-system leave to other pods: one in so many. Those that leave less on each node that they match are
// not counted, the youngest first: with enough of them no node would have room for a pod, of any tenant.
const leftFree = 10

// crowding returns the daemons that are not counted for that reason, as indices. fits of each are the offers whose nodes have its pods.
func crowding(offers []offer, daemons []class) []int {
	if !mayCrowd(offers, daemons) {
		return nil
	}
	order := make([]int, len(daemons))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return DaemonOrder(daemons[a].pod, daemons[b].pod) })
	var out []int
	free := make([]vec, len(offers)) // Nil where no daemon has been counted.
	for _, j := range order {
		d, counts := &daemons[j], ofSystem(daemons[j].pod.Namespace) || daemons[j].fits.Empty()
		d.fits.Each(func(i int) {
			if free[i] == nil {
				free[i] = offers[i].free.clone()
			}
			counts = counts || leaves(free[i], d.need, offers[i].free)
		})
		if !counts {
			out = append(out, j)
			continue
		}
		d.fits.Each(func(i int) { free[i].add(d.need, -1) })
	}
	return out
}

// mayCrowd reports whether a daemon may be one of those: whether all of them together leave too little on each node that one matches.
func mayCrowd(offers []offer, daemons []class) bool {
	if len(daemons) == 0 || len(offers) == 0 {
		return false
	}
	all, roomy := make(vec, len(offers[0].free)), bitset.New(len(offers))
	for j := range daemons {
		all.add(daemons[j].need, 1)
	}
	for i := range offers {
		if leaves(offers[i].free, all, offers[i].free) {
			roomy.Add(i)
		}
	}
	return slices.ContainsFunc(daemons, func(d class) bool { return !d.fits.Empty() && !d.fits.Meets(roomy) })
}

// leaves reports whether the need leaves enough of what is free to other pods, on a node that had the whole.
func leaves(free, need, whole vec) bool {
	for k, n := range need {
		least := int64(0)
		if k == dimPods || k == dimCPU || k == dimMemory {
			least = max(1, whole[k]/leftFree)
		}
		if n > 0 && free[k]-n < least {
			return false
		}
	}
	return true
}

// ofSystem reports whether a DaemonSet is one of kube-system's, which tenants do not create.
func ofSystem(namespace string) bool { return namespace == metav1.NamespaceSystem }

// DaemonOrder compares DaemonSets, or what has their names, by which is counted first: those of kube-system, then the older ones.
func DaemonOrder(a, b metav1.Object) int {
	rank := func(o metav1.Object) int {
		if ofSystem(o.GetNamespace()) {
			return 0
		}
		return 1
	}
	return cmp.Or(
		rank(a)-rank(b), a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()),
	)
}

// DaemonRoom counts the pods of DaemonSets on one node, in the order of DaemonOrder.
type DaemonRoom struct {
	// Allocatable is that of the node.
	Allocatable corev1.ResourceList
	taken       corev1.ResourceList
}

// Takes counts the pod of a DaemonSet of the namespace. It returns false, and does not count it, where a plan would not count it on such a node alone: it leaves less
// than a tenth of the node to other pods.
func (r *DaemonRoom) Takes(namespace string, requests corev1.ResourceList) bool {
	taken := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)}
	maps.Copy(taken, requests)
	for name, q := range taken {
		q.Add(r.taken[name])
		taken[name] = q
		have, ok := r.Allocatable[name]
		if !ok || ofSystem(namespace) || q.IsZero() {
			continue
		}
		least := int64(0)
		if name == corev1.ResourcePods || name == corev1.ResourceCPU || name == corev1.ResourceMemory {
			least = max(1, amount(name, have)/leftFree)
		}
		if own := requests[name]; (name == corev1.ResourcePods || !own.IsZero()) && amount(name, have)-amount(name, q) < least {
			return false
		}
	}
	if r.taken == nil {
		r.taken = corev1.ResourceList{}
	}
	maps.Copy(r.taken, taken)
	return true
}
