package sleep

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Why is why a pod stays where it is while its namespace sleeps.
type Why string

// The reasons, as they are said in Events.
const (
	Bare      Why = "without a controller that would create it again"
	OfJob     Why = "of Jobs, which end by themselves"
	Protected Why = "with do-not-disrupt"
	Elsewhere Why = "on nodes that slipway may not disrupt"
	Late      Why = "created since the sleep began, by another scheduler"
)

// Facts are the input of a decision about one namespace that sleeps.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Since is when the sleep began, as far as is known here: pods that were created later stay. Who schedules them does not hold them back.
	Since time.Time
	// Pods are the namespace's.
	Pods []*corev1.Pod
	// Disrupts reports whether slipway may disrupt what is on a node.
	Disrupts func(node string) bool
}

// Plan is what to do about the pods.
type Plan struct {
	// Evict are the pods to evict.
	Evict []*corev1.Pod
	// Stay is how many pods stay, by the reason.
	Stay map[Why]int
}

// Decide returns which pods of a namespace that sleeps are evicted. Pods that occupy no node, such as those of DaemonSets, are left out.
func Decide(f Facts) Plan {
	out := Plan{Stay: map[Why]int{}}
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || !disruption.Occupies(pod) {
			continue
		}
		if why := stays(f, pod); why != "" {
			out.Stay[why]++
			continue
		}
		out.Evict = append(out.Evict, pod)
	}
	return out
}

// stays returns why the pod stays; empty if it is evicted.
func stays(f Facts, pod *corev1.Pod) Why {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return Bare
	case owner.Kind == "Job":
		return OfJob
	case disruption.ProtectionOf(pod, f.Now).Active:
		return Protected
	case !f.Disrupts(pod.Spec.NodeName):
		return Elsewhere
	case pod.CreationTimestamp.After(f.Since):
		return Late
	}
	return ""
}

// String says how many pods are evicted and how many stay, for people.
func (p Plan) String() string {
	out := []string{"to evict: " + catalog.CountText(len(p.Evict), "pod")}
	for _, why := range slices.Sorted(maps.Keys(p.Stay)) {
		out = append(out, fmt.Sprintf("%d stay: %s", p.Stay[why], why))
	}
	return strings.Join(out, "; ")
}
