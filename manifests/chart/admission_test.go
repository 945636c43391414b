package chart_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// The selectors of Fargate profiles become conditions with their wildcards, and with nothing else that a regular expression knows.
func TestFargateSelectors(t *testing.T) {
	for name, tc := range map[string]struct {
		selector map[string]any
		want     string
	}{
		"a namespace": {map[string]any{"namespace": "edge"}, `!(request.namespace == "edge")`},
		"namespaces":  {map[string]any{"namespace": "edge-?*"}, `!(request.namespace.matches("^edge-..*$"))`},
		"labels": {
			map[string]any{"namespace": "edge", "labels": map[string]any{"app.io/name": "web", "tier": "v1.?"}},
			`!(request.namespace == "edge" && has(object.metadata.labels) && "app.io/name" in object.metadata.labels && ` +
				`object.metadata.labels["app.io/name"] == "web" && "tier" in object.metadata.labels && object.metadata.labels["tier"].matches("^v1\\..$"))`,
		},
		"keys": {
			map[string]any{"namespace": "edge", "labels": map[string]any{"a.io/*": "web", "b?": "*"}},
			`!(request.namespace == "edge" && has(object.metadata.labels) && object.metadata.labels.exists(k, k.matches("^a\\.io/.*$") && ` +
				`object.metadata.labels[k] == "web") && object.metadata.labels.exists(k, k.matches("^b.$") && object.metadata.labels[k].matches("^.*$")))`,
		},
	} {
		values := minimal()
		values["admission"] = map[string]any{"enabled": true, "except": map[string]any{"fargate": []any{tc.selector}}}
		conditions := render(t, "kube-system", values)["MutatingAdmissionPolicy slipway"].(*admissionv1.MutatingAdmissionPolicy).Spec.MatchConditions
		i := slices.IndexFunc(conditions, func(c admissionv1.MatchCondition) bool { return c.Name == "fargate-0" })
		if i < 0 {
			t.Fatalf("%s: there is none among %v", name, conditions)
		}
		if got := strings.Join(strings.Fields(conditions[i].Expression), " "); got != tc.want {
			t.Errorf("%s: condition\n%s, want\n%s", name, got, tc.want)
		}
	}
}
