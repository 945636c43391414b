package invariants

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// ownedInstances finds living instances of a NodePool, or of a NodeClaim without one, that belong to no NodeClaim.
func ownedInstances(e *Evidence) []string {
	owned := map[string]bool{}
	for _, c := range e.Claims {
		if !c.Deleted.Seen() {
			owned[instanceID(c)] = true
		}
	}
	var out []string
	for _, i := range e.Instances {
		launched := i.Tags[karpv1.NodePoolLabelKey] != "" || i.Tags[launchTag] != ""
		if (i.Live() || i.Asleep()) && launched && !owned[i.ID] {
			out = append(out, fmt.Sprintf("instance %s of NodePool %q belongs to no NodeClaim", i.ID, i.Tags[karpv1.NodePoolLabelKey]))
		}
	}
	return out
}

// livingClaims finds NodeClaims that are not initialized, are being deleted, or have no living instance. Those of standby buffers are judged apart.
func livingClaims(e *Evidence) []string {
	live := e.live()
	var out []string
	for _, c := range e.Claims {
		switch {
		case c.Deleted.Seen():
		case c.Terminating.Seen():
			out = append(out, fmt.Sprintf("NodeClaim %s is still leaving", c.Object.Name))
		case record.StandbyOf(c.Object).Waits():
		case !c.Object.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue():
			out = append(out, fmt.Sprintf("NodeClaim %s is not initialized", c.Object.Name))
		case !live[instanceID(c)]:
			out = append(out, fmt.Sprintf("NodeClaim %s has no living instance: %q", c.Object.Name, c.Object.Status.ProviderID))
		}
	}
	return out
}

// knownNodes finds Nodes of a NodePool that have no NodeClaim, still have a taint of slipway, or are not Ready.
func knownNodes(e *Evidence) []string {
	claims := map[string]string{}
	for _, c := range e.Claims {
		if !c.Deleted.Seen() {
			claims[c.Object.Status.NodeName] = c.Object.Name
		}
	}
	var out []string
	for _, n := range e.Nodes {
		if n.Deleted.Seen() || n.Object.Labels[karpv1.NodePoolLabelKey] == "" {
			continue
		}
		if claims[n.Object.Name] == "" {
			out = append(out, fmt.Sprintf("Node %s has no NodeClaim", n.Object.Name))
		}
		for _, key := range []string{catalog.StartingTaintKey, karpv1.DisruptedTaintKey, karpv1.UnregisteredTaintKey} {
			if observe.HasTaint(n.Object, key) {
				out = append(out, fmt.Sprintf("Node %s still has taint %s", n.Object.Name, key))
			}
		}
	}
	return out
}

// placedPods finds pods that do not run on an existing Node.
func placedPods(e *Evidence) []string {
	nodes := map[string]bool{}
	for _, n := range e.Nodes {
		if !n.Deleted.Seen() {
			nodes[n.Object.Name] = true
		}
	}
	var out []string
	for _, p := range e.Pods {
		name := p.Object.Namespace + "/" + p.Object.Name
		switch {
		case p.Deleted.Seen() || p.Object.Namespace == "kube-system":
		case p.Object.Spec.NodeName != "" && !nodes[p.Object.Spec.NodeName]:
			out = append(out, fmt.Sprintf("pod %s is bound to Node %s, which is not there", name, p.Object.Spec.NodeName))
		case p.Object.Status.Phase != corev1.PodRunning:
			s := p.Object.Status
			out = append(out, strings.TrimSpace(fmt.Sprintf("pod %s is %s, on node %q %s %s", name, s.Phase, p.Object.Spec.NodeName, s.Reason, s.Message)))
		}
	}
	return out
}
