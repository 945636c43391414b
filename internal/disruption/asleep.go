package disruption

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Stays is why a pod stays where it is while its namespace sleeps.
type Stays string

// The reasons, as they are said in Events.
const (
	StaysBare      Stays = "without a controller that would create it again"
	StaysOfJob     Stays = "of Jobs, which end by themselves"
	StaysProtected Stays = "with do-not-disrupt"
	StaysElsewhere Stays = "on nodes that slipway may not disrupt"
	StaysLate      Stays = "created since the sleep began, by another scheduler"
)

// Sleep is the input of a decision about one namespace that sleeps.
type Sleep struct {
	// Now is the time of the decision.
	Now time.Time
	// Since is when the sleep began, as far as is known here: pods that were created later stay. Who schedules them does not hold them back.
	Since time.Time
	// Pods are the namespace's.
	Pods []*corev1.Pod
	// Disrupts reports whether slipway may disrupt what is on a node.
	Disrupts func(node string) bool
}

// SleepPlan is what to do about the pods.
type SleepPlan struct {
	// Evict are the pods to evict.
	Evict []*corev1.Pod
	// Stay is how many pods stay, by the reason.
	Stay map[Stays]int
}

// FallAsleep returns which pods of a namespace that sleeps are evicted. Pods that occupy no node, such as those of DaemonSets, are left out.
func FallAsleep(f Sleep) SleepPlan {
	out := SleepPlan{Stay: map[Stays]int{}}
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || !Occupies(pod) {
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
func stays(f Sleep, pod *corev1.Pod) Stays {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case owner == nil:
		return StaysBare
	case owner.Kind == "Job":
		return StaysOfJob
	case ProtectionOf(pod, f.Now).Active:
		return StaysProtected
	case !f.Disrupts(pod.Spec.NodeName):
		return StaysElsewhere
	case pod.CreationTimestamp.After(f.Since):
		return StaysLate
	}
	return ""
}

// String says how many pods are evicted and how many stay, for people.
func (p SleepPlan) String() string {
	out := []string{"to evict: " + catalog.CountText(len(p.Evict), "pod")}
	for _, why := range slices.Sorted(maps.Keys(p.Stay)) {
		out = append(out, fmt.Sprintf("%d stay: %s", p.Stay[why], why))
	}
	return strings.Join(out, "; ")
}
