package view

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// PodRow is a pod on a node, or one that has its place there.
type PodRow struct {
	// Namespace of the pod.
	Namespace string `json:"namespace"`
	// Name of the pod.
	Name string `json:"name"`
	// State is promised, bound, running, terminating, or daemon for the pods of DaemonSets.
	State string `json:"state"`
	// MilliCPU is requested, in thousandths of a CPU.
	MilliCPU int64 `json:"milliCPU"`
	// Bytes of memory are requested.
	Bytes int64 `json:"bytes"`
	// Created is when the pod was.
	Created time.Time `json:"created,omitzero"`
}

// PodsOf returns the pods on a node of the overview and those that wait for it, the ones of DaemonSets last, by name.
func PodsOf(in Objects, node NodeRow) []PodRow {
	waiting := awaiting(in)
	var out []PodRow
	sum := summer{}
	for _, pod := range in.Pods {
		onNode := pod.Spec.NodeName != "" && pod.Spec.NodeName == node.Node
		claim := waiting[string(pod.UID)]
		promised := claim != nil && claim.Name == node.NodeClaim
		if disruption.Terminal(pod) || !onNode && !promised {
			continue
		}
		r := sum.requestsOf(pod)
		out = append(out, PodRow{
			Namespace: pod.Namespace, Name: pod.Name, State: stateOfPod(pod), MilliCPU: r.milliCPU, Bytes: r.bytes, Created: pod.CreationTimestamp.Time,
		})
	}
	last := func(r PodRow) int {
		if r.State == stateDaemon {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b PodRow) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

const stateDaemon = "daemon"

func stateOfPod(pod *corev1.Pod) string {
	switch {
	case disruption.OfDaemonSet(pod):
		return stateDaemon
	case pod.DeletionTimestamp != nil:
		return "terminating"
	case pod.Spec.NodeName == "":
		return "promised"
	case pod.Status.Phase == corev1.PodRunning:
		return "running"
	}
	return "bound"
}
