package simulate

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// youngest is how long a node is left alone after it was bought, where its NodePool does not say otherwise: its pods have hardly started.
const youngest = 10 * time.Minute

// fleet are the nodes of the input's NodePools as consolidation looks at them, with pods that count twice at the age of their NodePool.
func fleet(objects *input.Objects, cat catalog.State, now time.Time, podAge func(*karpv1.NodePool) time.Duration) []consolidate.Node {
	pools := map[string]*karpv1.NodePool{}
	for _, p := range objects.NodePools {
		pools[p.Name] = p
	}
	on := map[string][]*corev1.Pod{}
	for _, p := range objects.Pods {
		on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p.Pod)
	}
	guards := guardsOf(objects)
	var out []consolidate.Node
	for _, n := range objects.Nodes {
		pool := pools[n.Labels[karpv1.NodePoolLabelKey]]
		if pool == nil {
			continue
		}
		node := consolidate.Node{
			Name: n.Name, Used: consolidate.Used(n, on[n.Name]),
			Policy: consolidate.Policy(cmp.Or(pool.Spec.Disruption.ConsolidationPolicy, karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized)),
			Offer: consolidate.Offer{
				NodePool: pool.Name, InstanceType: n.Labels[corev1.LabelInstanceTypeStable], Zone: n.Labels[corev1.LabelTopologyZone],
				CapacityType: n.Labels[karpv1.CapacityTypeLabelKey],
			},
		}
		node.Price = consolidate.PriceIn(cat.InstanceTypes, node.Offer)
		for _, p := range on[n.Name] {
			if consolidate.Moves(p) {
				node.Pods = append(node.Pods, consolidate.Pod{
					Name: p.Namespace + "/" + p.Name, Weight: consolidate.Weight(p), Fresh: consolidate.Fresh(p, now, podAge(pool)),
				})
			}
		}
		node.Blocked = blocked(n, pool, node.Offer, now)
		for _, p := range on[n.Name] {
			if node.Blocked == "" && consolidate.Moves(p) {
				node.Blocked = guards.holds(p, now)
			}
		}
		out = append(out, node)
	}
	return out
}

// blocked says why a node may not be touched, whatever runs there.
func blocked(n *corev1.Node, pool *karpv1.NodePool, o consolidate.Offer, now time.Time) string {
	age, least := now.Sub(n.CreationTimestamp.Time), catalog.AgeOf(pool.Annotations, catalog.NodeAgeAnnotation, youngest)
	switch after := pool.Spec.Disruption.ConsolidateAfter.Duration; {
	case n.DeletionTimestamp != nil:
		return "the node is being deleted"
	case after == nil:
		return "NodePool " + pool.Name + " consolidates nothing (consolidateAfter Never)"
	case pool.Spec.Replicas != nil:
		return "NodePool " + pool.Name + " has a fixed number of nodes (spec.replicas)"
	case o.Price == 0:
		return fmt.Sprintf("the price of %s, %s in %s is not known", o.InstanceType, o.CapacityType, o.Zone)
	case protected(n.Annotations, n.CreationTimestamp.Time, now):
		return "the node has the annotation " + karpv1.DoNotDisruptAnnotationKey
	case !n.CreationTimestamp.IsZero() && age < max(least, *after):
		return fmt.Sprintf("the node is %s old, and is left alone for %s", age.Round(time.Second), max(least, *after))
	}
	for _, t := range n.Spec.Taints {
		if t.Key == karpv1.DisruptedTaintKey {
			return "the node is leaving already"
		}
	}
	return ""
}

// protected reads karpenter.sh/do-not-disrupt: true, or for how long since the start.
func protected(annotations map[string]string, start, now time.Time) bool {
	value, ok := annotations[karpv1.DoNotDisruptAnnotationKey]
	if !ok {
		return false
	}
	if d, err := time.ParseDuration(value); err == nil {
		return start.IsZero() || now.Before(start.Add(d))
	}
	return value == "true"
}

// guards are what keeps pods from being moved.
type guards struct {
	budgets []budget
}

// budget is a PodDisruptionBudget and how many pods it lets go now.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
	allowed  int
}

// guardsOf reads the PodDisruptionBudgets. Those of a cluster say themselves how many pods may go; of those of files that
// is computed as the disruption controller does (pkg/controller/disruption), all bound pods taken as healthy.
func guardsOf(objects *input.Objects) guards {
	var out guards
	for _, b := range objects.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		one := budget{PodDisruptionBudget: b, selector: selector, allowed: int(b.Status.DisruptionsAllowed)}
		if b.Status.ObservedGeneration == 0 {
			healthy, all := 0, 0
			for _, p := range objects.Pods {
				if one.covers(p.Pod) {
					all++
					if p.Spec.NodeName != "" {
						healthy++
					}
				}
			}
			one.allowed = healthy - desired(&b.Spec, all)
		}
		out.budgets = append(out.budgets, one)
	}
	return out
}

func (b *budget) covers(p *corev1.Pod) bool {
	return p.Namespace == b.Namespace && b.selector.Matches(labels.Set(p.Labels))
}

// desired is how many of the pods have to stay healthy.
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

// holds says why a pod may not be moved; empty if it may.
func (g guards) holds(p *corev1.Pod, now time.Time) string {
	name, start := p.Namespace+"/"+p.Name, p.CreationTimestamp.Time
	if p.Status.StartTime != nil {
		start = p.Status.StartTime.Time
	}
	switch {
	case protected(p.Annotations, start, now):
		return fmt.Sprintf("pod %s has the annotation %s", name, karpv1.DoNotDisruptAnnotationKey)
	case metav1.GetControllerOf(p) == nil:
		return fmt.Sprintf("pod %s has no controller: nothing would create it again", name)
	}
	covered := ""
	for i := range g.budgets {
		b := &g.budgets[i]
		switch {
		case !b.covers(p):
		case b.allowed <= 0:
			return fmt.Sprintf("PodDisruptionBudget %s/%s lets none of its pods go now", b.Namespace, b.Name)
		case covered != "":
			return fmt.Sprintf("pod %s is covered by two PodDisruptionBudgets, %s and %s: the API server evicts no such pod", name, covered, b.Name)
		default:
			covered = b.Name
		}
	}
	return ""
}
