package disruption

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

const (
	// awayShare is 1 over the share of a controller's pods that drains may take away together: a tenth, as Karpenter's default budget takes of
	// the nodes of a NodePool.
	awayShare = 10
	// ServingPatience is how long a drain waits for pods of a controller to be Ready before it takes more of them, and how long a pod that is
	// not Ready counts as one that will be.
	ServingPatience = 5 * time.Minute
	// ReplacedWithin is how long an evicted pod of which no replacement is seen counts as away. A busy kube-controller-manager takes seconds; one of a
	// Deployment that was scaled down meanwhile creates none.
	ReplacedWithin = 30 * time.Second
)

// Serving counts the pods of one controller.
type Serving struct {
	// Pods are those that are there or will be created again.
	Pods int
	// Away are those of them that are not Ready, and may be soon.
	Away int
}

// Spares reports whether one more of the pods may be evicted: a tenth of them may be away, and one where that is less.
func (s Serving) Spares() bool { return s.Away < max(s.Pods/awayShare, 1) }

// Serves reports whether the pod is Ready and stays so until it is evicted.
func Serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && conditions.PodIs(pod, corev1.PodReady)
}

// ServingOwner returns the controller of a pod that takes part in the count: it serves, and runs on until it is stopped. The pods of DaemonSets
// have no replacement elsewhere. Nil for other pods, which are evicted as they come.
func ServingOwner(pod *corev1.Pod) *metav1.OwnerReference {
	ends := pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	if !Serves(pod) || ends || OfDaemonSet(pod) || Static(pod) {
		return nil
	}
	return metav1.GetControllerOfNoCopy(pod)
}

// ServingOf counts the pods of a controller. evicted is when drains evicted pods of it, by the pod's UID; these may be gone.
func ServingOf(pods []*corev1.Pod, evicted map[types.UID]time.Time, now time.Time) Serving {
	missing := unreplaced(pods, evicted, now)
	out := Serving{Pods: len(missing), Away: len(missing)}
	for _, pod := range pods {
		switch {
		case Terminal(pod), missing[pod.UID]:
		case pod.DeletionTimestamp != nil:
			// A ReplicaSet creates the replacement at once, which is counted. A StatefulSet waits until the pod has ended.
			if ownedBy(pod, "apps/v1", "StatefulSet") {
				out.Pods++
				out.Away++
			}
		default:
			out.Pods++
			if !conditions.PodIs(pod, corev1.PodReady) && now.Sub(unreadySince(pod)) < ServingPatience {
				out.Away++
			}
		}
	}
	return out
}

// unreplaced returns the evicted pods of which no replacement is seen yet: each pod that was created since stands for one of them.
func unreplaced(pods []*corev1.Pod, evicted map[types.UID]time.Time, now time.Time) map[types.UID]bool {
	out := map[types.UID]bool{}
	if len(evicted) == 0 {
		return out
	}
	var created []time.Time
	for _, pod := range pods {
		if _, was := evicted[pod.UID]; !was {
			created = append(created, pod.CreationTimestamp.Time)
		}
	}
	slices.SortFunc(created, time.Time.Compare)
	for _, uid := range slices.SortedFunc(maps.Keys(evicted), func(a, b types.UID) int { return evicted[a].Compare(evicted[b]) }) {
		at := evicted[uid]
		// The API server cuts off the fraction of the second.
		before := func(c time.Time) bool { return c.Before(at.Truncate(time.Second)) }
		for len(created) > 0 && before(created[0]) {
			created = created[1:]
		}
		switch {
		case len(created) > 0:
			created = created[1:]
		case now.Sub(at) < ReplacedWithin:
			out[uid] = true
		}
	}
	return out
}

// unreadySince returns since when a pod is not Ready.
func unreadySince(pod *corev1.Pod) time.Time {
	if c := conditions.Pod(pod, corev1.PodReady); c != nil && c.LastTransitionTime.After(pod.CreationTimestamp.Time) {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// ServingText says that pods of a controller wait for others, for people.
func ServingText(namespace string, owner *metav1.OwnerReference) string {
	return fmt.Sprintf("pods of %s %s/%s wait until others of it are Ready", owner.Kind, namespace, owner.Name)
}
