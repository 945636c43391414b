package view

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// PendingPods are pending pods of one owner with the same reason.
type PendingPods struct {
	// Namespace of the pods.
	Namespace string `json:"namespace"`
	// Owner is their controller, such as "ReplicaSet web-5d4f"; a pod without one is named itself.
	Owner string `json:"owner"`
	// Pod is the name of one of the pods, the first by name.
	Pod string `json:"pod"`
	// Count of the pods.
	Count int `json:"count"`
	// Since is when the oldest was created.
	Since time.Time `json:"since,omitzero"`
	// Why is slipway's reason; empty before it has planned.
	Why string `json:"why,omitempty"`
}

// podsOf are the pods of a cluster, counted.
type podsOf struct {
	PodCounts
	perNode, perClaim map[string]int
	// requested is by node, and counts pods of DaemonSets too.
	requested map[string]requests
	pending   []*corev1.Pod
}

// requests are the sums of pods' requests: thousandths of a CPU, and bytes.
type requests struct{ milliCPU, bytes int64 }

func (r requests) plus(o requests) requests {
	return requests{r.milliCPU + o.milliCPU, r.bytes + o.bytes}
}

// requestsOf returns what a pod requests.
func requestsOf(pod *corev1.Pod) requests {
	of := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return requests{of.Cpu().MilliValue(), of.Memory().Value()}
}

// allocatableOf returns what a node has for pods; zero before it has reported.
func allocatableOf(node *corev1.Node) requests {
	have := node.Status.Allocatable
	return requests{have.Cpu().MilliValue(), have.Memory().Value()}
}

// shareOf returns the shares of all CPU and memory; nil where there is none.
func (r requests) shareOf(all requests) (cpu, memory *float64) {
	share := func(of, all int64) *float64 {
		if all <= 0 {
			return nil
		}
		return new(float64(of) / float64(all))
	}
	return share(r.milliCPU, all.milliCPU), share(r.bytes, all.bytes)
}

func countPods(in Objects) podsOf {
	promises := Promises(in.NodeClaims)
	out := podsOf{perNode: map[string]int{}, perClaim: map[string]int{}, requested: map[string]requests{}}
	for _, pod := range in.Pods {
		if disruption.Terminal(pod) {
			continue
		}
		if pod.Spec.NodeName != "" {
			out.requested[pod.Spec.NodeName] = out.requested[pod.Spec.NodeName].plus(requestsOf(pod))
		}
		if disruption.OfDaemonSet(pod) || in.Namespace != "" && pod.Namespace != in.Namespace {
			continue
		}
		claim, promised := promises[string(pod.UID)]
		switch {
		case pod.Status.Phase == corev1.PodRunning:
			out.Running++
		case pod.Spec.NodeName != "":
			out.Bound++
		case promised:
			out.Promised++
			out.perClaim[claim]++
		default:
			out.Pending++
			out.pending = append(out.pending, pod)
		}
		if pod.Spec.NodeName != "" {
			out.perNode[pod.Spec.NodeName]++
		}
	}
	return out
}

// groupPending groups pending pods by namespace, owner and reason.
func groupPending(pods []*corev1.Pod, why func(*corev1.Pod) string) []PendingPods {
	type key struct{ namespace, owner, why string }
	index := map[key]int{}
	var out []PendingPods
	for _, pod := range pods {
		k := key{namespace: pod.Namespace, owner: "Pod " + pod.Name}
		if c := metav1.GetControllerOf(pod); c != nil {
			k.owner = c.Kind + " " + c.Name
		}
		if why != nil {
			k.why = why(pod)
		}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, PendingPods{Namespace: k.namespace, Owner: k.owner, Why: k.why, Pod: pod.Name, Since: pod.CreationTimestamp.Time})
		}
		out[i].Count++
		out[i].Pod = min(out[i].Pod, pod.Name)
		if created := pod.CreationTimestamp.Time; created.Before(out[i].Since) {
			out[i].Since = created
		}
	}
	slices.SortFunc(out, func(a, b PendingPods) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Why, b.Why))
	})
	return out
}
