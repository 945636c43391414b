package node

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// MaxResources is how many resources of a node are read: a kubelet reports what its device plugins name, and the API server accepts any
// number of names.
const MaxResources = 64

// Reported returns what a kubelet reports as capacity or allocatable, without names and quantities that are not valid, and how many are
// left out. Of more than MaxResources it keeps those that every kubelet reports, then the planned ones, then others by their names.
func Reported(in, planned corev1.ResourceList) (kept corev1.ResourceList, left int) {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(in)), func(name corev1.ResourceName) bool {
		q := in[name]
		return len(validation.IsQualifiedName(string(name))) > 0 || q.Sign() < 0
	})
	if len(names) > MaxResources {
		own := native(in)
		rank := func(name corev1.ResourceName) int {
			if _, ok := own[name]; ok {
				return 0
			}
			if _, ok := planned[name]; ok {
				return 1
			}
			return 2
		}
		slices.SortFunc(names, func(a, b corev1.ResourceName) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a, b)) })
		names = names[:MaxResources]
	}
	if in == nil {
		return nil, 0
	}
	kept = make(corev1.ResourceList, len(names))
	for _, name := range names {
		kept[name] = in[name]
	}
	return kept, len(in) - len(kept)
}
