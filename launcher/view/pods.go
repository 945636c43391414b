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

// summer sums the requests of one pod after the other, in one map: maps for a hundred thousand pods are a hundred megabytes. The zero value is
// ready.
type summer struct{ list corev1.ResourceList }

// requestsOf returns what a pod requests. That of most pods is the sum of their containers, which takes a tenth of the library's time.
func (s *summer) requestsOf(pod *corev1.Pod) requests {
	if len(pod.Spec.InitContainers) == 0 && len(pod.Spec.Overhead) == 0 && pod.Spec.Resources == nil {
		var out requests
		for i := range pod.Spec.Containers {
			list := pod.Spec.Containers[i].Resources.Requests
			cpu, memory := list[corev1.ResourceCPU], list[corev1.ResourceMemory]
			out = out.plus(requests{cpu.MilliValue(), memory.Value()})
		}
		return out
	}
	if s.list == nil {
		s.list = corev1.ResourceList{}
	}
	s.list = resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{Reuse: s.list})
	cpu, memory := s.list[corev1.ResourceCPU], s.list[corev1.ResourceMemory]
	return requests{cpu.MilliValue(), memory.Value()}
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

// countPods counts pods by state, and with nodes set, what they request by node.
func countPods(in Objects, nodes bool) podsOf {
	waiting := awaiting(in)
	out := podsOf{perNode: make(map[string]int, len(in.Nodes)), perClaim: map[string]int{}, requested: make(map[string]requests, len(in.Nodes))}
	sum := summer{}
	for _, pod := range in.Pods {
		if disruption.Terminal(pod) {
			continue
		}
		if nodes && pod.Spec.NodeName != "" {
			out.requested[pod.Spec.NodeName] = out.requested[pod.Spec.NodeName].plus(sum.requestsOf(pod))
		}
		if disruption.OfDaemonSet(pod) || in.Namespace != "" && pod.Namespace != in.Namespace {
			continue
		}
		claim := waiting[string(pod.UID)]
		switch {
		case pod.Status.Phase == corev1.PodRunning:
			out.Running++
		case pod.Spec.NodeName != "":
			out.Bound++
		case claim != nil:
			out.Promised++
			out.perClaim[claim.Name]++
		default:
			out.Pending++
			out.pending = append(out.pending, pod)
		}
		if nodes && pod.Spec.NodeName != "" {
			out.perNode[pod.Spec.NodeName]++
		}
	}
	return out
}

// Pods counts the pods by state, and returns the pending ones by owner and reason. It is New without the nodes.
func Pods(in Objects) (PodCounts, []PendingPods) {
	pods := countPods(in, false)
	return pods.PodCounts, groupPending(pods.pending, in.Why)
}

// groupPending groups pending pods by namespace, owner and reason.
func groupPending(pods []*corev1.Pod, why func(*corev1.Pod) string) []PendingPods {
	type key struct{ namespace, owner, why string }
	index := map[key]int{}
	var out []PendingPods
	for _, pod := range pods {
		k := key{namespace: pod.Namespace, owner: "Pod " + pod.Name}
		if c := metav1.GetControllerOfNoCopy(pod); c != nil {
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
