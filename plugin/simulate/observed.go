package simulate

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// observed is the input as the rules of package disruption read it. It adds what controllers and kubelets would have written and
// the input leaves out: NodeClaims of nodes that have none, the condition Ready, what PodDisruptionBudgets allow.
type observed struct {
	now time.Time
	// candidates are the nodes of the input's NodePools, in the order of the input.
	candidates []disruption.Candidate
	// labels are those of all nodes of the input, by name.
	labels map[string]map[string]string
	// podBudgets are the PodDisruptionBudgets of the input.
	podBudgets disruption.PodBudgets
	// disruptBare means that pods without a controller do not keep a node.
	disruptBare bool
	// buffers are the pods of CapacityBuffers with room on each node, by its name. They are no pods: nothing is evicted for them.
	buffers map[string][]*corev1.Pod
	// tallies count the nodes of each NodePool for its budgets.
	tallies map[string]disruption.PoolCount
}

// observe reads the input as of a time.
func observe(objects *input.Objects, now time.Time) *observed {
	pools := make(map[string]*karpv1.NodePool, len(objects.NodePools))
	for _, p := range objects.NodePools {
		pools[p.Name] = p
	}
	pods, kept := make(map[string][]*corev1.Pod, len(objects.Nodes)), map[string][]*corev1.Pod{}
	for _, p := range objects.Pods {
		switch {
		case p.Spec.NodeName == "":
		case buffers.NameOf(p.Pod) != "":
			kept[p.Spec.NodeName] = append(kept[p.Spec.NodeName], p.Pod)
		default:
			pods[p.Spec.NodeName] = append(pods[p.Spec.NodeName], reported(p.Pod))
		}
	}
	claims := make(map[string]*karpv1.NodeClaim, len(objects.NodeClaims))
	for _, c := range objects.NodeClaims {
		claims[c.Status.NodeName] = c
	}
	out := &observed{now: now, buffers: kept, labels: make(map[string]map[string]string, len(objects.Nodes)), podBudgets: disruption.ReadPodBudgets(podBudgetsOf(objects))}
	var counted []disruption.BudgetNode
	for _, n := range objects.Nodes {
		out.labels[n.Name] = n.Labels
		c := disruption.Candidate{Now: now, Claim: claims[n.Name], Node: n, Pool: pools[n.Labels[karpv1.NodePoolLabelKey]], Pods: pods[n.Name]}
		delete(claims, n.Name)
		if c.Claim == nil {
			c = recorded(c)
		}
		counted = append(counted, disruption.BudgetNodeOf(c.Claim, c.Node))
		if c.Pool != nil {
			out.candidates = append(out.candidates, c)
		}
	}
	for _, c := range claims {
		counted = append(counted, disruption.BudgetNodeOf(c, nil))
	}
	out.tallies = disruption.CountNodes(counted, nil)
	return out
}

// recorded returns the candidate with the NodeClaim that its node would have. The NodeClaim is initialized since the node was
// created, unless the node's labels show that it is not, and consolidatable when no pod has come for consolidateAfter. A node
// without the condition Ready counts as Ready: kubelets post one, users who write nodes do not.
func recorded(c disruption.Candidate) disruption.Candidate {
	if conditions.Ready(c.Node) == nil {
		ready := *c.Node
		ready.Status.Conditions = append([]corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, ready.Status.Conditions...)
		c.Node = &ready
	}
	c.Claim = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: c.Node.Name, UID: types.UID(c.Node.Name), Labels: c.Node.Labels, CreationTimestamp: c.Node.CreationTimestamp,
	}}
	c.Claim.Status.NodeName = c.Node.Name
	if c.Node.Labels[karpv1.NodeRegisteredLabelKey] == "true" && c.Node.Labels[karpv1.NodeInitializedLabelKey] != "true" {
		return c
	}
	since := c.Node.CreationTimestamp
	if since.IsZero() {
		since = metav1.Unix(0, 0) // The time is not known: long ago.
	}
	set(c.Claim, karpv1.ConditionTypeInitialized, since)
	for _, pod := range c.Pods {
		if at := bound(pod); at.After(c.Claim.Status.LastPodEventTime.Time) && !disruption.OfDaemonSet(pod) && !disruption.Static(pod) {
			c.Claim.Status.LastPodEventTime = at
		}
	}
	if disruption.DecideEmpty(disruption.EmptyFactsOf(c)).Consolidatable {
		set(c.Claim, karpv1.ConditionTypeConsolidatable, since)
	}
	return c
}

// set sets a condition of the NodeClaim to True since a time.
func set(claim *karpv1.NodeClaim, condition string, since metav1.Time) {
	claim.StatusConditions().SetTrue(condition)
	conditions.Claim(claim, condition).LastTransitionTime = since
}

// bound returns when the pod was bound; zero if that is not known.
func bound(pod *corev1.Pod) metav1.Time {
	if c := conditions.Pod(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime
	}
	if pod.Status.StartTime != nil {
		return *pod.Status.StartTime
	}
	return metav1.Time{}
}

// reported returns a bound pod as its kubelet would report it. A pod without any condition counts as ready: kubelets post
// conditions with the first status, users who write pods do not.
func reported(pod *corev1.Pod) *corev1.Pod {
	if len(pod.Status.Conditions) > 0 || pod.Status.Phase == corev1.PodPending {
		return pod
	}
	return started(pod)
}

// started returns the pod running and ready.
func started(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	out.Status.Phase = corev1.PodRunning
	out.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return &out
}

// podBudgetsOf returns the PodDisruptionBudgets with their status. A budget from a cluster has its own. The status of a budget
// from a file is computed as the disruption controller does (pkg/controller/disruption): the expected pods are those of the
// input.
func podBudgetsOf(objects *input.Objects) []policyv1.PodDisruptionBudget {
	out := make([]policyv1.PodDisruptionBudget, 0, len(objects.Budgets))
	for _, b := range objects.Budgets {
		one := *b
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && b.Status.ObservedGeneration == 0 {
			healthy, all := 0, 0
			for _, p := range objects.Pods {
				if p.Namespace != b.Namespace || buffers.NameOf(p.Pod) != "" || !selector.Matches(labels.Set(p.Labels)) {
					continue
				}
				all++
				if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && conditions.PodIs(reported(p.Pod), corev1.PodReady) {
					healthy++
				}
			}
			want := max(desired(&b.Spec, all), 0)
			one.Status.ExpectedPods, one.Status.CurrentHealthy, one.Status.DesiredHealthy = count32(all), count32(healthy), count32(want)
			one.Status.DisruptionsAllowed = count32(max(healthy-want, 0))
		}
		out = append(out, one)
	}
	return out
}

func count32(n int) int32 { return int32(min(n, math.MaxInt32)) }

// desired returns how many of the pods have to stay healthy.
func desired(spec *policyv1.PodDisruptionBudgetSpec, all int) int {
	switch {
	case spec.MaxUnavailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, all, true)
		if err != nil {
			return all
		}
		return all - n
	case spec.MinAvailable != nil:
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, all, true)
		if err != nil {
			return all
		}
		return n
	}
	return 0
}
