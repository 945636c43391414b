package simulate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// judge holds a decision against the rules, which it reads from the objects by itself.
func (h *churn) judge(nodes []consolidate.Node, d consolidate.Decision, o consolidate.Options) {
	h.t.Helper()
	pods := map[string]*corev1.Pod{}
	for _, p := range h.c.objects.Pods {
		pods[p.Namespace+"/"+p.Name] = p.Pod
	}
	goes := map[string]bool{}
	for i := range d.Moves {
		m := &d.Moves[i]
		if len(m.Targets) > 0 && (m.Saving < o.MinSaving || m.Saving*o.Payback.Hours() < m.Cost-1e-9) {
			h.t.Errorf("a move saves %v USD per hour and costs %v", m.Saving, m.Cost)
		}
		for _, n := range m.Nodes {
			goes[n.Name] = true
			for _, r := range m.Replacements {
				if n.InstanceType == r.InstanceType && n.CapacityType == r.CapacityType && n.Price <= r.Price {
					h.t.Errorf("node %s is given up for an equal one, %s", n.Name, r.Name)
				}
			}
		}
		for name, to := range m.Targets {
			h.mayMove(name, pods[name], to)
		}
	}
	for _, m := range d.Moves {
		for pod, to := range m.Targets {
			if goes[to] {
				h.t.Errorf("pod %s moves to node %s, which goes", pod, to)
			}
		}
	}
	h.withinBudget(len(goes), len(nodes))
}

// mayMove holds the move of one pod against the rules.
func (h *churn) mayMove(name string, p *corev1.Pod, to string) {
	h.t.Helper()
	switch {
	case to == "":
		h.t.Errorf("pod %s has nowhere to go", name)
	case p.Annotations[karpv1.DoNotDisruptAnnotationKey] != "" || len(p.OwnerReferences) == 0:
		h.t.Errorf("pod %s is moved, which is not to be disrupted or has no owner", name)
	case h.guarded(p.Labels["app"]):
		h.t.Errorf("pod %s is moved, whose PodDisruptionBudget lets none go", name)
	}
}

// guarded says whether the budget of an app lets nobody go, all its pods being healthy.
func (h *churn) guarded(app string) bool {
	for _, b := range h.c.objects.Budgets {
		if b.Spec.Selector.MatchLabels["app"] == app && b.Spec.MaxUnavailable.IntVal == 0 {
			return true
		}
	}
	return false
}

// withinBudget holds the number of nodes that go against the NodePool's only budget; percent are rounded up.
func (h *churn) withinBudget(leave, all int) {
	h.t.Helper()
	text := h.c.objects.NodePools[0].Spec.Disruption.Budgets[0].Nodes
	limit := intstr.Parse(text)
	if n, err := intstr.GetScaledValueFromIntOrPercent(&limit, all, true); err != nil || leave > n {
		h.t.Errorf("%d of %d nodes go at once, the budget is %s (%v)", leave, all, text, err)
	}
}
