package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/manifests"
)

// tenantPolicy applies the sample of a policy for tenants, for the namespace of the test.
func (w *world) tenantPolicy() {
	w.t.Helper()
	documents, err := manifests.Documents("samples/policies/tenants.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for i, object := range []client.Object{policy, binding} {
		if err := yaml.UnmarshalStrict(documents[i], object); err != nil {
			w.t.Fatal(err)
		}
		w.create(object)
		w.t.Cleanup(func() {
			ctx, cancel := cleanupContext()
			defer cancel()
			if err := persist(ctx, func() error { return client.IgnoreNotFound(w.client.Delete(ctx, object)) }); err != nil {
				w.t.Error(err)
			}
		})
	}
	namespace := &corev1.Namespace{}
	if err := w.client.Get(w.t.Context(), keyOf(w.name), namespace); err != nil {
		w.t.Fatal(err)
	}
	before := namespace.DeepCopy()
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, "slipway.dev/tenant", "true")
	if err := w.client.Patch(w.t.Context(), namespace, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
	w.await(w.t, "the policy to hold", func() bool {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "probe"}, Spec: w.podSpec("1m", "1Mi", nil)}
		pod.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		err := w.client.Create(w.t.Context(), pod, client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "a duration of at most 4h is allowed")
	})
	// An expression with a type error is refused for every object, which would look as if the policy held.
	w.await(w.t, "kube-controller-manager to have checked the policy's types", func() bool {
		err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(policy), policy)
		return err == nil && policy.Status.TypeChecking != nil && policy.Status.ObservedGeneration == policy.Generation
	})
	if c := policy.Status.TypeChecking; len(c.ExpressionWarnings) > 0 {
		w.t.Errorf("the API server warns of the policy: %v", c.ExpressionWarnings)
	}
}

// The sample of a policy limits what pods of a tenant may ask for, and nothing of other namespaces.
func TestTenantPolicy(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t, "policy"), newTenant(t, "policy-other")
	w.tenantPolicy()
	tenant := w.tenant()
	terms := func(n int) []corev1.PodAffinityTerm {
		out := make([]corev1.PodAffinityTerm, n)
		for i := range out {
			out[i] = corev1.PodAffinityTerm{TopologyKey: fmt.Sprintf("k%d", i), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		}
		return out
	}
	annotated := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	spread := func(n int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, term := range terms(n) {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: term.TopologyKey, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: term.LabelSelector,
				})
			}
		}
	}
	affinity := func(pods, anti, nodes int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
			p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(pods)}
			for _, term := range terms(anti) {
				p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
					p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
			}
			for _, term := range terms(nodes) {
				p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
					p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
						Weight:     1,
						Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: term.TopologyKey, Operator: corev1.NodeSelectorOpExists}}},
					})
			}
		}
	}
	tolerations := func(n int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for i := range n - len(p.Spec.Tolerations) - 2 { // Admission adds two.
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("k%d", i), Operator: corev1.TolerationOpExists})
			}
		}
	}
	resources := func(n int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.Resources.Limits = corev1.ResourceList{}
			for i := range n {
				c.Resources.Limits[corev1.ResourceName(fmt.Sprintf("x.io/r%d", i))] = resource.MustParse("0")
			}
			c.Resources.Requests = c.Resources.Limits.DeepCopy()
		}
	}
	refused := map[bool]int{}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"plain":              {func(*corev1.Pod) {}, ""},
		"half an hour":       {annotated("karpenter.sh/do-not-disrupt", "30m"), ""},
		"four hours":         {annotated("karpenter.sh/do-not-disrupt", "3h60m"), ""},
		"five hours":         {annotated("karpenter.sh/do-not-disrupt", "5h"), "a duration of at most 4h is allowed"},
		"for ever":           {annotated("karpenter.sh/do-not-disrupt", "true"), "a duration of at most 4h is allowed"},
		"for ever, as once":  {annotated("karpenter.sh/do-not-evict", "true"), "a duration of at most 4h is allowed"},
		"not":                {annotated("karpenter.sh/do-not-disrupt", "false"), ""},
		"a mirror pod":       {annotated(corev1.MirrorPodAnnotationKey, "x"), "only a kubelet creates mirror pods"},
		"64 spreads":         {spread(64), ""},
		"65 spreads":         {spread(65), "spec.topologySpreadConstraints: at most 64"},
		"64 terms":           {affinity(20, 20, 24), ""},
		"65 terms":           {affinity(20, 20, 25), "spec.affinity: at most 64 terms"},
		"65 pod affinities":  {affinity(65, 0, 0), "spec.affinity: at most 64 terms"},
		"64 tolerations":     {tolerations(64), ""},
		"65 tolerations":     {tolerations(65), "spec.tolerations: at most 64"},
		"32 resources":       {resources(32), ""},
		"4,000 resources":    {resources(4000), "at most 64 ports and 32 resources"},
		"8,000 soft spreads": {spread(8000), "spec.topologySpreadConstraints: at most 64"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "a"}, Spec: w.podSpec("1m", "1Mi", nil)}
		c.change(pod)
		if strings.Contains(name, "mirror") { // The API server itself refuses one without a node.
			pod.Spec.NodeName, pod.Spec.AutomountServiceAccountToken = "node", new(false)
		}
		free := pod.DeepCopy()
		free.Namespace = other.name
		err := persist(t.Context(), func() error { return tenant.Create(t.Context(), pod, client.DryRunAll) })
		refused[err != nil]++
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if err := persist(t.Context(), func() error { return w.client.Create(t.Context(), free, client.DryRunAll) }); err != nil {
			t.Errorf("%s, in a namespace without tenants: %v", name, err)
		}
	}
	shared.measured(t, "%d pods beyond a limit were refused, %d within the limits were not", refused[true], refused[false])
}
