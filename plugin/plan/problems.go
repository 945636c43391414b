package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// unsupported is why no node is launched for the pod, whatever its shape; nil where one may be.
func unsupported(pod *corev1.Pod) *Reason {
	if claims := pod.Spec.ResourceClaims; len(claims) > 0 {
		return &Reason{Code: "NotSupported", Message: fmt.Sprintf("asks for the ResourceClaim %q: which devices a new node will have is known only once its DRA driver runs, so no node is launched for it", claims[0].Name)}
	}
	if name, q := negative(PodRequests(pod)); name != "" {
		return &Reason{Code: "InvalidPod", Message: fmt.Sprintf("requests %s of %s, less than nothing", q, name)}
	}
	return nil
}

// negative is the first resource, by name, of which the list has less than nothing; empty for none.
func negative(list corev1.ResourceList) (corev1.ResourceName, string) {
	for _, name := range sortedNames(list) {
		if q := list[name]; q.Sign() < 0 {
			return name, q.String()
		}
	}
	return "", ""
}

// problems lists the mistakes in the input: NodePools first, then instance types, then pods.
func problems(in Input) []Problem {
	m := &model{in: in}
	m.compilePools()
	for pi := range m.pools {
		m.poolProblems(&m.pools[pi])
	}
	for _, class := range sortedKeys(m.in.Catalog.InstanceTypes) {
		for i := range m.in.Catalog.InstanceTypes[class] {
			m.priceProblem(class, &m.in.Catalog.InstanceTypes[class][i])
		}
	}
	for _, c := range m.in.Classes {
		if name, q := negative(PodRequests(c.Pod)); name != "" {
			ref := c.Pod.Name
			if len(c.Pods) > 0 {
				ref = c.Pods[0].Name
			}
			m.problem(fmt.Sprintf("Pod %s/%s", c.Pod.Namespace, ref), "spec.containers", "requests %s of %s; a request is 0 or more. The pod is not planned", q, name)
		}
		if _, err := PodRequirements(c.Pod); err != nil && len(c.Pods) > 0 {
			m.problem(fmt.Sprintf("Pod %s/%s", c.Pod.Namespace, c.Pods[0].Name), "spec.affinity.nodeAffinity", "%v. The pod is not planned", err)
		}
	}
	for i := range m.in.DaemonSets {
		ds := m.in.DaemonSets[i]
		if name, q := negative(PodRequests(&corev1.Pod{Spec: ds.Spec.Template.Spec})); name != "" {
			m.problem(fmt.Sprintf("DaemonSet %s/%s", ds.Namespace, ds.Name), "spec.template.spec.containers", "requests %s of %s; a request is 0 or more. It counts as 0", q, name)
		}
	}
	return m.problems
}

func (m *model) problem(object, field, format string, args ...any) {
	m.problems = append(m.problems, Problem{Object: object, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (m *model) poolProblems(p *pool) {
	object := "NodePool " + p.Name
	m.requirementProblems(p)
	if key, bad := p.reqs.Conflict(); bad {
		m.problem(object, "spec.template.spec.requirements", "contradict each other: no value of %s is allowed. The pool launches nothing", key)
	}
	for _, k := range sortedKeys(p.labels) {
		if set, ok := p.reqs[NormalKey(k)]; ok && !set.Has(p.labels[k]) && p.broken == nil {
			m.problem(object, "spec.template.metadata.labels", "%s=%s contradicts the requirement %s %s. The pool launches nothing", k, p.labels[k], k, setText(set))
		}
	}
	for i, t := range p.Taints {
		if !slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect) {
			m.problem(object, fmt.Sprintf("spec.template.spec.taints[%d].effect", i), "%q is none of NoSchedule, PreferNoSchedule and NoExecute. It is read as NoSchedule", t.Effect)
		}
	}
	if name, q := negative(p.Limits); name != "" {
		m.problem(object, "spec.limits", "%s of %s is less than nothing. The pool launches nothing", q, name)
	}
	if p.Ready && len(m.in.Catalog.InstanceTypes[p.NodeClass]) == 0 {
		m.problem(object, "spec.template.spec.nodeClassRef", "EC2NodeClass %s has no instance type", p.NodeClass)
	}
}

// requirementProblems looks at each requirement of the pool alone.
func (m *model) requirementProblems(p *pool) {
	object := "NodePool " + p.Name
	for i, r := range p.Requirements {
		field := fmt.Sprintf("spec.template.spec.requirements[%d]", i)
		if _, err := catalog.NewRequirements([]catalog.Requirement{r}); err != nil {
			m.problem(object, field, "%v; the operators are In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte and Lte. The pool is left out", err)
		}
		if len(r.Values) > 0 && r.Operator == corev1.NodeSelectorOpIn && int(r.MinValues) > len(r.Values) {
			m.problem(object, field+".minValues", "asks for %d values of the %d that are listed: no node can keep it", r.MinValues, len(r.Values))
		}
	}
}

// priced says that the offering has a price to reckon with.
func priced(o *catalog.Offering) bool { return o.Price > 0 && !math.IsInf(o.Price, 1) }

// priceProblem names the offerings of the type that have no price.
func (m *model) priceProblem(class string, it *catalog.InstanceType) {
	var without []string
	for i := range it.Offerings {
		if o := &it.Offerings[i]; !priced(o) {
			without = append(without, o.CapacityType+" in "+o.Zone)
		}
	}
	slices.Sort(without)
	if len(without) > 3 {
		without = append(without[:3], fmt.Sprintf("%d more", len(without)-3))
	}
	if len(without) > 0 {
		m.problem("InstanceType "+it.Name, "offerings", "no price for %s (EC2NodeClass %s): not offered", strings.Join(without, ", "), class)
	}
}
