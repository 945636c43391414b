package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// unsupported is why no node is launched for the class's pods, whatever their shape; nil where one may be.
func unsupported(c *Class, requests corev1.ResourceList) *Reason {
	pod := c.Pod
	switch claims := pod.Spec.ResourceClaims; {
	case len(claims) == 0:
	case c.Claims != nil && c.Claims.Problem != nil:
		return c.Claims.Problem
	case c.Claims == nil:
		return &Reason{Code: "NotSupported", Message: fmt.Sprintf("asks for the ResourceClaim %q: which devices a new node will have is known only once its DRA driver runs, so no node is launched for it", claims[0].Name)}
	}
	if why := invalidRequest(&pod.Spec, requests); why != "" {
		return &Reason{Code: "InvalidPod", Message: why}
	}
	if why := nodematch.TooManyTerms(&pod.Spec); why != "" {
		return &Reason{Code: "NotSupported", Message: why}
	}
	if what, n := mostRequired(&pod.Spec); n > relations.MostTerms {
		return &Reason{Code: "NotSupported", Message: fmt.Sprintf("has %d %s; slipway launches nodes for pods with at most %d", n, what, relations.MostTerms)}
	}
	return nil
}

// mostRequired returns which kind of required constraint the pod has most of, and how many.
func mostRequired(spec *corev1.PodSpec) (string, int) {
	what, most := "", 0
	count := func(kind string, n int) {
		if n > most {
			what, most = kind, n
		}
	}
	hard := 0
	for i := range spec.TopologySpreadConstraints {
		if spec.TopologySpreadConstraints[i].WhenUnsatisfiable == corev1.DoNotSchedule {
			hard++
		}
	}
	count("topology spread constraints with DoNotSchedule", hard)
	if a := spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			count("required pod affinity terms", len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution))
		}
		if a.PodAntiAffinity != nil {
			count("required pod anti-affinity terms", len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution))
		}
	}
	return what, most
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

// problems lists the mistakes in the input: NodePools first, then instance types, then pods, then DaemonSets. oversized are the indices of
// DaemonSets whose pods are larger than each node that they match.
func problems(in Input, oversized []int) []Problem {
	found, offered := inputProblems{in: &in}, market{}
	(&marketBuilder{in: &in, market: &offered}).compilePools()
	for pi := range offered.pools {
		found.poolProblems(&offered.pools[pi])
	}
	for _, class := range sortedKeys(in.Catalog.InstanceTypes) {
		for i := range in.Catalog.InstanceTypes[class] {
			found.priceProblem(class, &in.Catalog.InstanceTypes[class][i])
		}
	}
	for _, c := range in.Classes {
		if why := invalidRequest(&c.Pod.Spec, PodRequests(c.Pod)); why != "" {
			ref := c.Pod.Name
			if len(c.Pods) > 0 {
				ref = c.Pods[0].Name
			}
			found.problem(fmt.Sprintf("Pod %s/%s", c.Pod.Namespace, ref), "spec.containers", "%s. The pod is not planned", why)
		}
		if _, err := nodematch.PodRequirements(c.Pod); err != nil && len(c.Pods) > 0 {
			found.problem(fmt.Sprintf("Pod %s/%s", c.Pod.Namespace, c.Pods[0].Name), "spec.affinity.nodeAffinity", "%v. The pod is not planned", err)
		}
	}
	for i := range in.DaemonSets {
		ds := in.DaemonSets[i]
		requests := PodRequests(&corev1.Pod{Spec: ds.Spec.Template.Spec})
		why := invalidRequest(&ds.Spec.Template.Spec, requests)
		if slices.Contains(oversized, i) {
			why = fmt.Sprintf("its pods ask for %s, more than any node that they match has", asked(requests))
		}
		if why != "" {
			found.problem(fmt.Sprintf("DaemonSet %s/%s", ds.Namespace, ds.Name), "spec.template.spec.containers", "%s. The DaemonSet is not counted", why)
		}
	}
	return found.problems
}

// asked lists requests, such as "100 of cpu, 1Gi of memory".
func asked(requests corev1.ResourceList) string {
	var out []string
	for _, name := range sortedNames(requests) {
		q := requests[name]
		out = append(out, q.String()+" of "+string(name))
	}
	return strings.Join(out, ", ")
}

func (ip *inputProblems) problem(object, field, format string, args ...any) {
	ip.problems = append(ip.problems, Problem{Object: object, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (ip *inputProblems) poolProblems(p *pool) {
	object := "NodePool " + p.Name
	ip.requirementProblems(p)
	if key, bad := p.reqs.Conflict(); bad {
		ip.problem(object, "spec.template.spec.requirements", "contradict each other: no value of %s is allowed. The pool launches nothing", key)
	}
	for _, k := range sortedKeys(p.labels) {
		if set, ok := p.reqs[catalog.NormalKey(k)]; ok && !set.Has(p.labels[k]) && p.broken == nil {
			ip.problem(object, "spec.template.metadata.labels", "%s=%s contradicts the requirement %s %s. The pool launches nothing", k, p.labels[k], k, setText(set))
		}
	}
	for i, t := range p.Taints {
		if !slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect) {
			ip.problem(object, fmt.Sprintf("spec.template.spec.taints[%d].effect", i), "%q is none of NoSchedule, PreferNoSchedule and NoExecute. It is read as NoSchedule", t.Effect)
		}
	}
	if name, q := negative(p.Limits); name != "" {
		ip.problem(object, "spec.limits", "%s of %s is less than nothing. The pool launches nothing", q, name)
	}
	if p.Ready && len(ip.in.Catalog.InstanceTypes[p.TypesKey()]) == 0 {
		ip.problem(object, "spec.template.spec.nodeClassRef", "EC2NodeClass %s has no instance type", p.NodeClass)
	}
}

// requirementProblems looks at each requirement of the pool alone.
func (ip *inputProblems) requirementProblems(p *pool) {
	object := "NodePool " + p.Name
	for i, r := range p.Requirements {
		field := fmt.Sprintf("spec.template.spec.requirements[%d]", i)
		if _, err := catalog.NewRequirements([]catalog.Requirement{r}); err != nil {
			ip.problem(object, field, "%v; the operators are In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte and Lte. The pool is left out", err)
		}
		if len(r.Values) > 0 && r.Operator == corev1.NodeSelectorOpIn && int(r.MinValues) > len(r.Values) {
			ip.problem(object, field+".minValues", "asks for %s, listed are %d: no node can keep it", catalog.CountText(int(r.MinValues), "value"), len(r.Values))
		}
	}
}

// priceProblem names the offerings of the type that have no price.
func (ip *inputProblems) priceProblem(class string, it *catalog.InstanceType) {
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
		ip.problem("InstanceType "+it.Name, "offerings", "no price for %s (EC2NodeClass %s): not offered", strings.Join(without, ", "), class)
	}
}

// inputProblems collects the mistakes in an input.
type inputProblems struct {
	in *Input
	// problems are mistakes in the input.
	problems []Problem
}
