package protect

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/drain"
)

// Budget is a PodDisruptionBudget whose selector has been read.
type Budget struct {
	policy   *policyv1.PodDisruptionBudget
	selector labels.Selector
}

// Read reads PodDisruptionBudgets once for many nodes. The API server takes no selector that cannot be read; if one is there all
// the same, its budget selects every pod of its namespace.
func Read(list []policyv1.PodDisruptionBudget) []Budget {
	out := make([]Budget, 0, len(list))
	for i := range list {
		selector, err := metav1.LabelSelectorAsSelector(list[i].Spec.Selector)
		if err != nil {
			selector = labels.Everything()
		}
		out = append(out, Budget{policy: &list[i], selector: selector})
	}
	return out
}

// Facts about a node.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Node and Claim are the node's.
	Node  *corev1.Node
	Claim *karpv1.NodeClaim
	// Pods that are bound to it.
	Pods []*corev1.Pod
	// Budgets are all of the cluster.
	Budgets []Budget
}

// Verdict on a node.
type Verdict struct {
	// Why the node may not be taken away, for a human; empty if it may.
	Why string
	// ByPods says that pods keep it, and not the node or its NodeClaim itself: a termination grace period has an end to that.
	ByPods bool
	// Until is when the reason ends by itself; zero where that is not known.
	Until time.Time
}

// Look says what keeps a node.
func Look(f Facts) Verdict {
	for _, object := range []metav1.Object{f.Node, f.Claim} {
		p := drain.ProtectionOfNode(object.GetAnnotations(), object.GetCreationTimestamp().Time, f.Now)
		if p.Active {
			return Verdict{Why: fmt.Sprintf("Disruption is blocked through the %q annotation%s", karpv1.DoNotDisruptAnnotationKey, until(p.Until)), Until: p.Until}
		}
	}
	for _, pod := range f.Pods {
		// Static pods and those of DaemonSets may hold a node by the annotation too, as in Karpenter.
		if drain.Terminal(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		if p := drain.ProtectionOf(pod, f.Now); p.Active {
			return Verdict{
				Why:    fmt.Sprintf("Pod %s/%s has the %q annotation%s", pod.Namespace, pod.Name, karpv1.DoNotDisruptAnnotationKey, until(p.Until)),
				ByPods: true, Until: p.Until,
			}
		}
	}
	for _, pod := range f.Pods {
		if why := held(pod, f.Budgets, f.Now); why != "" {
			return Verdict{Why: why, ByPods: true}
		}
	}
	for _, pod := range f.Pods {
		if bare(pod, f.Now) {
			return Verdict{Why: fmt.Sprintf("Pod %s/%s has no controller: nothing would create it again", pod.Namespace, pod.Name), ByPods: true}
		}
	}
	return Verdict{}
}

// bare says that an eviction would be the end of the pod. Karpenter evicts it all the same.
func bare(pod *corev1.Pod, now time.Time) bool {
	return drain.Holds(pod, now) && pod.DeletionTimestamp == nil && metav1.GetControllerOf(pod) == nil
}

func until(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " until " + at.UTC().Format(time.RFC3339)
}

// held says which budgets would not let the Eviction API take the pod now. Several pods of one budget are its own to let go one
// after the other.
func held(pod *corev1.Pod, budgets []Budget, now time.Time) string {
	if !drain.Holds(pod, now) || pod.DeletionTimestamp != nil {
		return ""
	}
	var of []*policyv1.PodDisruptionBudget
	for _, b := range budgets {
		if b.policy.Namespace == pod.Namespace && b.selector.Matches(labels.Set(pod.Labels)) {
			of = append(of, b.policy)
		}
	}
	switch {
	case len(of) == 0, pod.Status.Phase == corev1.PodPending:
		return "" // What does not run yet may always go.
	case len(of) > 1:
		return fmt.Sprintf("Pod %s/%s has more than one PodDisruptionBudget (%s, %s), which eviction does not support", pod.Namespace, pod.Name, of[0].Name, of[1].Name)
	case of[0].Status.DisruptionsAllowed > 0 || sick(pod, of[0]):
		return ""
	}
	return fmt.Sprintf("PDB %s/%s prevents eviction of pod %s", of[0].Namespace, of[0].Name, pod.Name)
}

// sick says that the pod is not ready and its budget does not guard those: always, or while enough others are healthy.
func sick(pod *corev1.Pod, b *policyv1.PodDisruptionBudget) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}
