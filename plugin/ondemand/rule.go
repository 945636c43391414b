package ondemand

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// The labels of a node that say where it counts.
const (
	labelCapacityType = "karpenter.sh/capacity-type"
	labelNodePool     = "karpenter.sh/nodepool"
)

// Shares are the minimum shares of NodePools that have one, by name.
type Shares map[string]float64

// SharesOf returns those of the NodePools.
func SharesOf(pools map[string]catalog.NodePool) Shares {
	out := Shares{}
	for name, p := range pools {
		if p.OnDemandShare > 0 {
			out[name] = p.OnDemandShare
		}
	}
	return out
}

// Governs reports whether a share holds for the pod, or may hold, depending on its NodePool.
func (s Shares) Governs(pod *corev1.Pod) bool {
	return len(s) > 0 || own(pod) > 0
}

// own returns the share that the pod's annotation asks for; 0 if it cannot be read, which Problems reports.
func own(pod *corev1.Pod) float64 {
	share, _ := catalog.OnDemandShare(pod.Annotations)
	return share
}

// Workload names the workload of a pod: namespace, kind and name of its controller, or of the pod itself. The author of a pod chooses its
// references, so the namespace is the pod's.
func Workload(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Kind + " " + pod.Namespace + "/" + owner.Name
	}
	return "Pod " + pod.Namespace + "/" + pod.Name
}

// Tally counts the pods of one workload: all of them, and those on interruptible nodes by NodePool.
type Tally struct {
	// Pods is the number of all.
	Pods int
	// Spot counts those on interruptible nodes, by NodePool.
	Spot map[string]int
}

// Add counts a pod on a node with the labels.
func (t *Tally) Add(labels map[string]string) {
	t.Pods++
	if !Interruptible(labels) {
		return
	}
	if t.Spot == nil {
		t.Spot = map[string]int{}
	}
	t.Spot[labels[labelNodePool]]++
}

// onSpot counts the pods on interruptible nodes of all NodePools.
func (t *Tally) onSpot() int {
	sum := 0
	for _, n := range t.Spot {
		sum += n
	}
	return sum
}

// Interruptible reports whether EC2 takes nodes with the labels back at short notice. A node of a NodePool counts as such until its capacity
// type is known.
func Interruptible(labels map[string]string) bool {
	capacityType, known := labels[labelCapacityType]
	if !known {
		return labels[labelNodePool] != ""
	}
	return catalog.CapacityTypeOf(capacityType).Interruptible
}

// most returns how many of so many pods may be on interruptible nodes: the others are rounded up, as a PodDisruptionBudget rounds.
func most(pods int, share float64) int {
	const tolerance = 1e-9 // 30% of 10 is 3, not 3.0000000000000004.
	return pods - int(math.Ceil(share*float64(pods)-tolerance))
}

// Refusal returns why one more pod of the workload may not be on a node with the labels; empty if it may. The tally is of the workload's other
// pods.
func (s Shares) Refusal(pod *corev1.Pod, t Tally, labels map[string]string) string {
	if !Interruptible(labels) {
		return ""
	}
	pool, pods := labels[labelNodePool], t.Pods+1
	if share := own(pod); share > 0 && t.onSpot() >= most(pods, share) {
		return says(pod, share, "", most(pods, share), pods)
	}
	if share := s[pool]; share > 0 && t.Spot[pool] >= most(pods, share) {
		return says(pod, share, pool, most(pods, share), pods)
	}
	return ""
}

// says words a limit. The share is the workload's own where the NodePool is empty.
func says(pod *corev1.Pod, share float64, pool string, allowed, pods int) string {
	whose := "its"
	if pool != "" {
		whose = "NodePool " + pool + "'s"
	}
	return fmt.Sprintf("%s: %s minimum on-demand share of %s allows %d of %d pods on spot nodes", Workload(pod), whose, percent(share), max(allowed, 0), pods)
}

func percent(share float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*share), ".0") + "%"
}

// names returns the NodePools with a share, sorted.
func (s Shares) names() []string { return slices.Sorted(maps.Keys(s)) }
