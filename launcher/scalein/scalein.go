// Package scalein decides which pods of a ReplicaSet that shrinks end first: those of one node after those of another, so that nodes become empty and no pod of
// theirs has to be evicted. It does so by the annotation controller.kubernetes.io/pod-deletion-cost, which pods get with their binding. It is pure.
//
// Without the annotation the ReplicaSet controller ends pods on all nodes alike, those first that share their node with the most of their set
// (pkg/controller/controller_utils.go, ActivePodsWithRanks). All nodes stay, half empty, until consolidation has moved the pods that are left.
package scalein

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// ranks is how many different costs nodes have: perSize of each of the sizes, by the power of two of their CPUs. The cost of an eviction depends on the
	// annotation too: by 2^-27 of it, so 2*10^-4 of a pod at most.
	ranks, sizes, perSize = sizes * perSize, 10, 1000
	// Last is the least cost of a pod that its set keeps for last.
	Last = ranks + 1
	// LastNodes is on how many nodes a set keeps a pod for last: it does not shrink onto a single node as long as it has pods on others.
	LastNodes = 3
)

// Off reports whether the pods on a NodePool's nodes get no deletion costs, as its annotation catalog.DeletionCostAnnotation says. The error says what was expected.
func Off(poolAnnotations map[string]string) (bool, error) {
	text, ok := poolAnnotations[catalog.DeletionCostAnnotation]
	if ok && text != catalog.DeletionCostOff {
		return false, fmt.Errorf("metadata.annotations[%s]: %q: %s is expected; pods get deletion costs", catalog.DeletionCostAnnotation, text, catalog.DeletionCostOff)
	}
	return ok, nil
}

// Governed reports whether slipway sets the deletion cost of a pod: that of a ReplicaSet's pod without a cost of its own. Where a set has constraints of topology
// spread or anti-affinity its user has said on which nodes it has to stay, and the ReplicaSet controller decides.
func Governed(pod *corev1.Pod) bool {
	owner, s := metav1.GetControllerOfNoCopy(pod), &pod.Spec
	_, own := pod.Annotations[corev1.PodDeletionCost]
	apart := len(s.TopologySpreadConstraints) > 0 || s.Affinity != nil && s.Affinity.PodAntiAffinity != nil
	return owner != nil && owner.Kind == "ReplicaSet" && !own && !apart
}

// Cost returns the deletion cost of a pod on a node, as the annotation has it: the node's rank, which is the same for the pods of all sets, and more for a pod
// that its set keeps for last. Pods on large nodes end first, so that the one node that is left in part is a small one. Among nodes of a size a hash of their
// names decides, so that those that become empty are of all zones.
func Cost(node *corev1.Node, last bool) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node.Name))
	size := min(bits.Len64(uint64(max(node.Status.Capacity.Cpu().Value(), 0))), sizes-1)
	cost := 1 + (sizes-1-size)*perSize + int(h.Sum32()%perSize)
	if last {
		cost += ranks
	}
	return strconv.Itoa(cost)
}

// Kept reports whether a deletion cost is that of a pod which its set keeps for last.
func Kept(deletionCost string) bool {
	cost, err := strconv.Atoi(deletionCost)
	return err == nil && cost >= Last && cost <= 2*ranks
}

// KeepsAnother reports whether a set keeps another pod for last, on a node, beside those that it has: one for each of LastNodes nodes.
func KeepsAnother(node string, nodes map[string]bool) bool {
	return len(nodes) < LastNodes && !nodes[node]
}
