package disruption

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// longestDrain is how long a pod of a node that is disrupted by choice may take to end. A node that drains counts in its NodePool's budgets, so a pod with years
// that ignores SIGTERM would keep the other nodes from being disrupted. Karpenter has no such limit.
const longestDrain = 24 * time.Hour

// Block is what prevents the disruption of a node.
type Block struct {
	// Why is the reason for a human; empty where nothing blocks the node. It is the text of Karpenter's Event
	// DisruptionBlocked.
	Why string
	// ByPods is true where pods block the node, and not the Node or its NodeClaim. A termination grace period ends that.
	ByPods bool
	// Until is when the reason ends by itself; zero where that is not known.
	Until time.Time
}

// BlockOf returns what prevents the graceful disruption of the node: karpenter.sh/do-not-disrupt on the Node, its NodeClaim
// or one of its pods, a PodDisruptionBudget, a pod that may take more than a day to end where the NodeClaim has no termination grace period, or, without
// DisruptBare, a pod that has no controller. Of several pods it names the first by namespace and name:
// a cache lists them in no order, and a reason that changes each time would be recorded each time.
func BlockOf(c Candidate, budgets PodBudgets) Block {
	for _, object := range []metav1.Object{c.Node, c.Claim} {
		p := ProtectionOfNode(object.GetAnnotations(), object.GetCreationTimestamp().Time, c.Now)
		if p.Active {
			return Block{Why: fmt.Sprintf("Disruption is blocked through the %q annotation%s", karpv1.DoNotDisruptAnnotationKey, until(p.Until)), Until: p.Until}
		}
	}
	// Static pods and those of DaemonSets block a node by the annotation too, as in Karpenter.
	if pod := first(c.Pods, func(pod *corev1.Pod) bool {
		return !Terminal(pod) && pod.DeletionTimestamp == nil && ProtectionOf(pod, c.Now).Active
	}); pod != nil {
		p := ProtectionOf(pod, c.Now)
		return Block{
			Why:    fmt.Sprintf("Pod %s/%s has the %q annotation%s", pod.Namespace, pod.Name, karpv1.DoNotDisruptAnnotationKey, until(p.Until)),
			ByPods: true, Until: p.Until,
		}
	}
	if pod := first(c.Pods, func(pod *corev1.Pod) bool { return held(pod, budgets, c.Now) != "" }); pod != nil {
		return Block{Why: held(pod, budgets, c.Now), ByPods: true}
	}
	if pod := first(c.Pods, func(pod *corev1.Pod) bool { return c.Claim.Spec.TerminationGracePeriod == nil && endless(pod, c.Now) }); pod != nil {
		return Block{
			Why:    fmt.Sprintf("Pod %s/%s may take more than 24 hours to end, and the NodeClaim has no terminationGracePeriod", pod.Namespace, pod.Name),
			ByPods: true,
		}
	}
	if pod := first(c.Pods, func(pod *corev1.Pod) bool { return !c.DisruptBare && bare(pod, c.Now) }); pod != nil {
		return Block{Why: fmt.Sprintf("Pod %s/%s has no controller: nothing would create it again", pod.Namespace, pod.Name), ByPods: true}
	}
	return Block{}
}

// first returns the pod for which blocks is true, of several the first by namespace and name; nil for none.
func first(pods []*corev1.Pod, blocks func(pod *corev1.Pod) bool) *corev1.Pod {
	var out *corev1.Pod
	for _, pod := range pods {
		before := out == nil || cmp.Or(cmp.Compare(pod.Namespace, out.Namespace), cmp.Compare(pod.Name, out.Name)) < 0
		if before && blocks(pod) {
			out = pod
		}
	}
	return out
}

// bare reports whether no controller would create the pod again after its eviction. Karpenter evicts such pods.
func bare(pod *corev1.Pod, now time.Time) bool {
	return Holds(pod, now) && pod.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(pod) == nil
}

// endless reports whether a drain may wait for the end of the pod for longer than longestDrain.
func endless(pod *corev1.Pod, now time.Time) bool {
	within := GracePeriod(pod)
	if pod.DeletionTimestamp != nil {
		within = pod.DeletionTimestamp.Sub(now)
	}
	return Holds(pod, now) && within > longestDrain
}

func until(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " until " + at.UTC().Format(time.RFC3339)
}
