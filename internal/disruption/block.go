package disruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

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
// or one of its pods, a PodDisruptionBudget or, without DisruptBare, a pod that has no controller.
func BlockOf(c Candidate, budgets []PodBudget) Block {
	for _, object := range []metav1.Object{c.Node, c.Claim} {
		p := ProtectionOfNode(object.GetAnnotations(), object.GetCreationTimestamp().Time, c.Now)
		if p.Active {
			return Block{Why: fmt.Sprintf("Disruption is blocked through the %q annotation%s", karpv1.DoNotDisruptAnnotationKey, until(p.Until)), Until: p.Until}
		}
	}
	for _, pod := range c.Pods {
		// Static pods and those of DaemonSets block a node by the annotation too, as in Karpenter.
		if Terminal(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		if p := ProtectionOf(pod, c.Now); p.Active {
			return Block{
				Why:    fmt.Sprintf("Pod %s/%s has the %q annotation%s", pod.Namespace, pod.Name, karpv1.DoNotDisruptAnnotationKey, until(p.Until)),
				ByPods: true, Until: p.Until,
			}
		}
	}
	for _, pod := range c.Pods {
		if why := held(pod, budgets, c.Now); why != "" {
			return Block{Why: why, ByPods: true}
		}
	}
	for _, pod := range c.Pods {
		if !c.DisruptBare && bare(pod, c.Now) {
			return Block{Why: fmt.Sprintf("Pod %s/%s has no controller: nothing would create it again", pod.Namespace, pod.Name), ByPods: true}
		}
	}
	return Block{}
}

// bare reports whether no controller would create the pod again after its eviction. Karpenter evicts such pods.
func bare(pod *corev1.Pod, now time.Time) bool {
	return Holds(pod, now) && pod.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(pod) == nil
}

func until(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " until " + at.UTC().Format(time.RFC3339)
}
