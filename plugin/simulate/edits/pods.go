package edits

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// podEdit returns a candidate that changes the pods' template.
func podEdit(class Class, kind int, field, text string, change func(*corev1.PodSpec)) candidate {
	pod := class.Pod.DeepCopy()
	change(&pod.Spec)
	return candidate{Edit: Edit{Object: class.Owner, Field: specOf(class.Owner) + "." + field, Text: text}, change: Change{Pod: pod}, order: [2]int{0, kind}}
}

// specOf returns where an owner has the spec of its pods.
func specOf(owner string) string {
	switch kind, _, _ := strings.Cut(owner, " "); kind {
	case "Pod":
		return "spec"
	case "CronJob":
		return "spec.jobTemplate.spec.template.spec"
	}
	return "spec.template.spec"
}

// selector is what pods demand of a node's label.
type selector struct {
	key    string
	values []string
	text   string
	// affinity means that it is a term of required node affinity, not of nodeSelector.
	affinity bool
}

// selectorsOf returns the labels that a pod demands, those of nodeSelector first, sorted.
func selectorsOf(pod *corev1.Pod) []selector {
	var out []selector
	for k, v := range pod.Spec.NodeSelector {
		out = append(out, selector{key: k, values: []string{v}, text: k + "=" + v})
	}
	slices.SortFunc(out, func(a, b selector) int { return strings.Compare(a.key, b.key) })
	required := requiredNodes(&pod.Spec)
	if required == nil {
		return out
	}
	seen := map[string]bool{}
	for _, t := range required.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			if seen[e.Key] {
				continue
			}
			seen[e.Key] = true
			s := selector{key: e.Key, text: strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ", "))), affinity: true}
			if e.Operator == corev1.NodeSelectorOpIn {
				s.values = e.Values
			}
			out = append(out, s)
		}
	}
	return out
}

func requiredNodes(spec *corev1.PodSpec) *corev1.NodeSelector {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// fewerSelectors returns for each label that the pods demand the edit that no longer demands it.
func fewerSelectors(class Class) []candidate {
	var out []candidate
	for _, s := range selectorsOf(class.Pod) {
		if !s.affinity {
			out = append(out, podEdit(class, demand, "nodeSelector: "+s.key, fmt.Sprintf("Remove node selector %s of %s.", s.text, class.Owner), func(spec *corev1.PodSpec) {
				delete(spec.NodeSelector, s.key)
			}))
			continue
		}
		out = append(out, podEdit(class, demand, "affinity.nodeAffinity: "+s.key, fmt.Sprintf("Remove %s from the required node affinity of %s.", s.text, class.Owner), func(spec *corev1.PodSpec) {
			required := requiredNodes(spec)
			for i := range required.NodeSelectorTerms {
				t := &required.NodeSelectorTerms[i]
				t.MatchExpressions = slices.DeleteFunc(t.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool { return e.Key == s.key })
				if len(t.MatchExpressions)+len(t.MatchFields) == 0 { // This alternative demands nothing: neither do all of them together.
					spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
					return
				}
			}
		}))
	}
	return out
}

// smallerRequest returns the edit by which the pod fits the nearest instance type; nothing where one container cannot give up what is too much.
func smallerRequest(class Class, nearest plan.Nearest) []candidate {
	asked := plan.PodRequests(class.Pod)
	type cut struct {
		container int
		name      corev1.ResourceName
		to        resource.Quantity
	}
	var cuts []cut
	var texts []string
	for name, has := range map[corev1.ResourceName]int64{corev1.ResourceCPU: nearest.MilliCPU, corev1.ResourceMemory: nearest.Bytes} {
		if has <= 0 {
			continue
		}
		at := largest(class.Pod.Spec.Containers, name)
		if at < 0 {
			return nil
		}
		have := class.Pod.Spec.Containers[at].Resources.Requests[name]
		total := asked[name]
		to := *resource.NewMilliQuantity(have.MilliValue()-(total.MilliValue()-has), resource.DecimalSI)
		if name == corev1.ResourceMemory {
			const mi = 1 << 20
			to = *resource.NewQuantity((have.Value()-(total.Value()-has))/mi*mi, resource.BinarySI)
		}
		if to.Sign() <= 0 || to.Cmp(have) >= 0 {
			return nil
		}
		cuts = append(cuts, cut{at, name, to})
		texts = append(texts, fmt.Sprintf("the %s request of container %s from %s to %s", name, class.Pod.Spec.Containers[at].Name, plain(name, have), plain(name, to)))
	}
	if len(cuts) == 0 {
		return nil
	}
	slices.Sort(texts)
	return []candidate{podEdit(class, request, "containers.resources.requests", fmt.Sprintf("Reduce %s, in %s.", strings.Join(texts, " and "), class.Owner), func(spec *corev1.PodSpec) {
		for _, c := range cuts {
			spec.Containers[c.container].Resources.Requests[c.name] = c.to
		}
	})}
}

// plain returns an amount as people write it: 1000 cores, not 1k, and 0.1 USD, not 100m.
func plain(name corev1.ResourceName, q resource.Quantity) string {
	switch {
	case name == corev1.ResourceCPU && q.MilliValue()%1000 == 0:
		return strconv.FormatInt(q.Value(), 10)
	case name == catalog.LimitUSD:
		return strconv.FormatFloat(q.AsApproximateFloat64(), 'f', -1, 64)
	}
	return q.String()
}

// largest returns the container that requests most of a resource; -1 if none does.
func largest(list []corev1.Container, name corev1.ResourceName) int {
	at := -1
	var most resource.Quantity
	for i := range list {
		if q := list[i].Resources.Requests[name]; q.Cmp(most) > 0 {
			at, most = i, q
		}
	}
	return at
}

// tolerating returns the edit by which the pods tolerate the taints.
func tolerating(class Class, taints []corev1.Taint) []candidate {
	var add []corev1.Toleration
	var texts []string
	for _, t := range taints {
		if _, ok := nodematch.Tolerates(class.Pod.Spec.Tolerations, []corev1.Taint{t}); ok {
			continue
		}
		add = append(add, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect})
		texts = append(texts, t.ToString())
	}
	if len(add) == 0 {
		return nil
	}
	what := strings.Join(texts, " and ")
	return []candidate{podEdit(class, toleration, "tolerations: "+what, fmt.Sprintf("Add a toleration of %s to %s.", what, class.Owner), func(spec *corev1.PodSpec) {
		spec.Tolerations = append(spec.Tolerations, add...)
	})}
}

// softer returns the edits that make one rule between pods a preference, or remove it.
func softer(class Class) []candidate {
	var out []candidate
	for i, c := range class.Pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		out = append(out, podEdit(class, demand, fmt.Sprintf("topologySpreadConstraints[%d].whenUnsatisfiable", i),
			fmt.Sprintf("Set whenUnsatisfiable of the topology spread over %s of %s to ScheduleAnyway.", c.TopologyKey, class.Owner), func(spec *corev1.PodSpec) {
				spec.TopologySpreadConstraints[i].WhenUnsatisfiable = corev1.ScheduleAnyway
			}))
	}
	a := class.Pod.Spec.Affinity
	if a == nil {
		return out
	}
	if a.PodAffinity != nil {
		for i, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			out = append(out, podEdit(class, demand, fmt.Sprintf("affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", i),
				fmt.Sprintf("Remove the required pod affinity by %s of %s.", t.TopologyKey, class.Owner), func(spec *corev1.PodSpec) {
					p := spec.Affinity.PodAffinity
					p.RequiredDuringSchedulingIgnoredDuringExecution = slices.Delete(p.RequiredDuringSchedulingIgnoredDuringExecution, i, i+1)
				}))
		}
	}
	if a.PodAntiAffinity != nil {
		for i, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			out = append(out, podEdit(class, demand, fmt.Sprintf("affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[%d]", i),
				fmt.Sprintf("Remove the required pod anti-affinity by %s of %s.", t.TopologyKey, class.Owner), func(spec *corev1.PodSpec) {
					p := spec.Affinity.PodAntiAffinity
					p.RequiredDuringSchedulingIgnoredDuringExecution = slices.Delete(p.RequiredDuringSchedulingIgnoredDuringExecution, i, i+1)
				}))
		}
	}
	return out
}
