package edits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// nodesLimit is the limit on the number of a NodePool's nodes.
const nodesLimit corev1.ResourceName = "nodes"

// poolEdit returns a candidate that changes a NodePool.
func poolEdit(pool *karpv1.NodePool, kind int, field, text string) candidate {
	return candidate{Edit: Edit{Object: "NodePool " + pool.Name, Field: field, Text: text}, change: Change{NodePool: pool}, order: [2]int{0, kind}}
}

// higherLimits returns for each limit of the NodePool the smallest one with which the pods are placed.
func higherLimits(pool *karpv1.NodePool, usage corev1.ResourceList) []candidate {
	var out []candidate
	for _, name := range slices.Sorted(maps.Keys(pool.Spec.Limits)) {
		field, before := "spec.limits."+string(name), pool.Spec.Limits[name]
		open := pool.DeepCopy()
		delete(open.Spec.Limits, name)
		c := poolEdit(open, figure, field, "")
		c.narrow = func(p Placed) *candidate {
			sum := usage[name].DeepCopy()
			for _, n := range p.Nodes {
				switch q := n.Capacity[name]; {
				case n.NodePool != pool.Name:
				case name == nodesLimit:
					sum.Add(resource.MustParse("1"))
				default:
					sum.Add(q)
				}
			}
			need := rounded(name, sum)
			if need.Cmp(before) <= 0 {
				return nil
			}
			raised := pool.DeepCopy()
			raised.Spec.Limits[name] = need
			out := poolEdit(raised, figure, field, fmt.Sprintf("Raise limit %s of NodePool %s from %s to %s.", name, pool.Name, plain(name, before), plain(name, need)))
			return &out
		}
		out = append(out, c)
	}
	return out
}

// rounded returns an amount as people write it: whole cores, whole Gi of memory, and whole cents.
func rounded(name corev1.ResourceName, q resource.Quantity) resource.Quantity {
	const gi = 1 << 30
	switch name {
	case corev1.ResourceCPU:
		return *resource.NewQuantity((q.MilliValue()+999)/1000, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity((q.Value()+gi-1)/gi*gi, resource.BinarySI)
	case catalog.LimitUSD:
		const cent = 10_000 // millionths of a USD
		return *resource.NewScaledQuantity((catalog.MicroUSDOf(q)+cent-1)/cent*10, resource.Milli)
	default:
		return *resource.NewQuantity(q.Value(), resource.DecimalSI)
	}
}

// widened returns for each requirement of the NodePool the values that it lacks for the pods. Requirements on labels that the pod selects are first.
func widened(pool *karpv1.NodePool, pod *corev1.Pod) []candidate {
	named := map[string]bool{}
	for _, s := range selectorsOf(pod) {
		named[s.key] = true
	}
	var first, others []candidate
	for i, r := range pool.Spec.Template.Spec.Requirements {
		if r.Key == karpv1.NodePoolLabelKey {
			continue
		}
		without := pool.DeepCopy()
		without.Spec.Template.Spec.Requirements = slices.Delete(without.Spec.Template.Spec.Requirements, i, i+1)
		field := "spec.template.spec.requirements: " + r.Key
		c := poolEdit(without, value, field, fmt.Sprintf("Remove requirement %s %s %s of NodePool %s.", r.Key, r.Operator, strings.Join(r.Values, ", "), pool.Name))
		if r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn {
			c.narrow = func(p Placed) *candidate { return allowing(pool, i, valuesOf(p, pool.Name, r.Key), field) }
		}
		if named[r.Key] {
			first = append(first, c)
		} else {
			others = append(others, c)
		}
	}
	return append(first, others...)
}

// valuesOf returns the values of a label that the NodePool's new nodes have, sorted.
func valuesOf(p Placed, pool, key string) []string {
	var out []string
	for _, n := range p.Nodes {
		if v := n.Labels[key]; n.NodePool == pool && v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// allowing returns the edit by which a requirement allows the values; nil if it allows them already.
func allowing(pool *karpv1.NodePool, at int, values []string, field string) *candidate {
	edited := pool.DeepCopy()
	r := &edited.Spec.Template.Spec.Requirements[at]
	what := fmt.Sprintf("Add %%s to requirement %s of NodePool %s.", r.Key, pool.Name)
	if r.Operator == corev1.NodeSelectorOpNotIn {
		what = fmt.Sprintf("Remove %%s from the values that requirement %s of NodePool %s excludes.", r.Key, pool.Name)
	}
	var changed []string
	for _, v := range values {
		has := slices.Contains(r.Values, v)
		switch {
		case r.Operator == corev1.NodeSelectorOpIn && !has:
			r.Values = append(r.Values, v)
		case r.Operator == corev1.NodeSelectorOpNotIn && has:
			r.Values = slices.DeleteFunc(r.Values, func(have string) bool { return have == v })
		default:
			continue
		}
		changed = append(changed, v)
	}
	if len(changed) == 0 {
		return nil
	}
	if len(r.Values) == 0 {
		edited.Spec.Template.Spec.Requirements = slices.Delete(edited.Spec.Template.Spec.Requirements, at, at+1)
	}
	out := poolEdit(edited, value, field, fmt.Sprintf(what, strings.Join(changed, ", ")))
	return &out
}

// labeled returns the edits by which the NodePool's nodes get a label of the user's own that the pods select.
func labeled(pool *karpv1.NodePool, pod *corev1.Pod) []candidate {
	var out []candidate
	for _, s := range selectorsOf(pod) {
		_, has := pool.Spec.Template.Labels[s.key]
		if has || len(s.values) == 0 || karpv1.IsRestrictedLabel(s.key) != nil || karpv1.WellKnownLabels.Has(s.key) {
			continue
		}
		edited := pool.DeepCopy()
		if edited.Spec.Template.Labels == nil {
			edited.Spec.Template.Labels = map[string]string{}
		}
		edited.Spec.Template.Labels[s.key] = s.values[0]
		out = append(out, poolEdit(edited, label, "spec.template.metadata.labels", fmt.Sprintf("Add label %s=%s to the nodes of NodePool %s.", s.key, s.values[0], pool.Name)))
	}
	return out
}

// obstacles returns how many of the labels that the pod demands no node of the NodePool can have, as far as its labels and requirements say, and one
// more where the pod does not tolerate its taints.
func obstacles(pool *karpv1.NodePool, pod *corev1.Pod) int {
	n := 0
	for _, s := range selectorsOf(pod) {
		if len(s.values) > 0 && !slices.ContainsFunc(s.values, func(v string) bool { return mayHave(pool, s.key, v) }) {
			n++
		}
	}
	if _, ok := nodematch.Tolerates(pod.Spec.Tolerations, pool.Spec.Template.Spec.Taints); !ok {
		n++
	}
	return n
}

// mayHave reports whether a node of the NodePool may have a label.
func mayHave(pool *karpv1.NodePool, key, value string) bool {
	if key == karpv1.NodePoolLabelKey {
		return value == pool.Name
	}
	if v, ok := pool.Spec.Template.Labels[key]; ok {
		return v == value
	}
	named := false
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.Key != key {
			continue
		}
		named = true
		has := slices.Contains(r.Values, value)
		if r.Operator == corev1.NodeSelectorOpIn && !has || r.Operator == corev1.NodeSelectorOpNotIn && has || r.Operator == corev1.NodeSelectorOpDoesNotExist {
			return false
		}
	}
	return named || karpv1.WellKnownLabels.Has(key) || karpv1.IsRestrictedLabel(key) != nil
}
