package plan

import (
	"cmp"
	"slices"

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
	rank := func(j int) int {
		if ofSystem(&daemons[j]) {
			return 0
		}
		return 1
	}
	order := make([]int, len(daemons))
	for j := range order {
		order[j] = j
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := daemons[a].pod, daemons[b].pod
		return cmp.Or(rank(a)-rank(b), x.CreationTimestamp.Compare(y.CreationTimestamp.Time), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(a, b))
	})
	var out []int
	free := make([]vec, len(offers)) // Nil where no daemon has been counted.
	for _, j := range order {
		d, counts := &daemons[j], ofSystem(&daemons[j]) || daemons[j].fits.Empty()
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

// ofSystem reports whether the DaemonSet is one of kube-system's, which tenants do not create.
func ofSystem(d *class) bool { return d.pod.Namespace == metav1.NamespaceSystem }
