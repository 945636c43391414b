package disruption

import (
	"fmt"
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
	// ReplacedWithin is how long after an eviction its pod counts as away, whatever is seen: until then its controller has created the
	// replacement, and it has been seen.
	ReplacedWithin = 3 * time.Second
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
	return metav1.GetControllerOf(pod)
}

// ServingOf counts the pods of a controller. evicted is when drains evicted pods of it, by the pod's UID; these may be gone.
func ServingOf(pods []corev1.Pod, evicted map[types.UID]time.Time, now time.Time) Serving {
	var out Serving
	for _, at := range evicted {
		if now.Sub(at) < ReplacedWithin {
			out.Pods++
			out.Away++
		}
	}
	for i := range pods {
		pod := &pods[i]
		switch at, was := evicted[pod.UID]; {
		case Terminal(pod), was && now.Sub(at) < ReplacedWithin:
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
