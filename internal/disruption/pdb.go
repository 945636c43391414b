package disruption

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// held returns why the Eviction API would refuse the pod now; empty if it would not. A budget that allows one disruption
// does not block: the drain evicts its pods one after the other.
func held(pod *corev1.Pod, budgets PodBudgets, now time.Time) string {
	if !Holds(pod, now) || pod.DeletionTimestamp != nil {
		return ""
	}
	of := selecting(pod, budgets)
	switch {
	case len(of) == 0, pod.Status.Phase == corev1.PodPending:
		return "" // The Eviction API never refuses a pod that does not run yet.
	case len(of) > 1:
		return fmt.Sprintf("Pod %s/%s has %s", pod.Namespace, pod.Name, several(of))
	case of[0].Status.DisruptionsAllowed > 0 || unguarded(pod, of[0]):
		return ""
	}
	return fmt.Sprintf("PDB %s/%s prevents eviction of pod %s", of[0].Namespace, of[0].Name, pod.Name)
}

// selecting returns the budgets that select the pod, by name: a cache lists them in no order.
func selecting(pod *corev1.Pod, budgets PodBudgets) []*policyv1.PodDisruptionBudget {
	var out []*policyv1.PodDisruptionBudget
	for _, b := range budgets[pod.Namespace] {
		if b.selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, b.policy)
		}
	}
	slices.SortFunc(out, func(a, b *policyv1.PodDisruptionBudget) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// several names the first two of more than one budget of a pod.
func several(of []*policyv1.PodDisruptionBudget) string {
	return fmt.Sprintf("more than one PodDisruptionBudget (%s, %s), which eviction does not support", of[0].Name, of[1].Name)
}

// forbidden returns why the budgets mean the pod never to be evicted, however many others are healthy; empty if they do not.
func forbidden(pod *corev1.Pod, budgets PodBudgets) string {
	of := selecting(pod, budgets)
	switch {
	case len(of) > 1:
		return "it has " + several(of)
	case len(of) == 1 && fullyBlocking(of[0].Spec):
		return fmt.Sprintf("PodDisruptionBudget %s allows no eviction", of[0].Name)
	}
	return ""
}

// fullyBlocking reports whether a budget allows no eviction of a healthy pod. It is Karpenter's isFullyBlocking (pkg/utils/pdb).
func fullyBlocking(b policyv1.PodDisruptionBudgetSpec) bool {
	return slices.Contains([]string{"0", "0%"}, b.MaxUnavailable.String()) || b.MinAvailable.String() == "100%"
}

// unguarded reports whether the pod is not ready and its budget does not protect such pods: never (AlwaysAllow), or while
// enough others are healthy (IfHealthyBudget, the default).
func unguarded(pod *corev1.Pod, b *policyv1.PodDisruptionBudget) bool {
	if conditions.PodIs(pod, corev1.PodReady) {
		return false
	}
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// LetGo returns those of the pods that the Eviction API lets go one after the other, if nothing replaces them.
func LetGo(pods []*corev1.Pod, budgets PodBudgets, now time.Time) []*corev1.Pod {
	var out []*corev1.Pod
	gone := map[*policyv1.PodDisruptionBudget]int32{}
	for _, pod := range pods {
		if held(pod, budgets, now) != "" {
			continue
		}
		// A pod with more than one is held.
		if all := selecting(pod, budgets); len(all) > 0 && pod.Status.Phase != corev1.PodPending && !unguarded(pod, all[0]) {
			of := all[0]
			if gone[of] >= of.Status.DisruptionsAllowed {
				continue
			}
			gone[of]++
		}
		out = append(out, pod)
	}
	return out
}
