package e2e_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// listed returns the objects that the API server has at a path.
func (w *world) listed(path string, query url.Values) []unstructured.Unstructured {
	w.t.Helper()
	request := w.Client().CoreV1().RESTClient().Get().AbsPath(path)
	for name, values := range query {
		request.Param(name, values[0])
	}
	body, err := request.DoRaw(w.t.Context())
	if err != nil {
		w.t.Fatalf("listing %s?%s: %v", path, query.Encode(), err)
	}
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal(body, &list); err != nil {
		w.t.Fatalf("listing %s: %v", path, err)
	}
	var out []unstructured.Unstructured
	for _, item := range list.Items {
		out = append(out, unstructured.Unstructured{Object: item})
	}
	return out
}

// named returns the object with the name.
func named(objects []unstructured.Unstructured, name string) unstructured.Unstructured {
	if i := slices.IndexFunc(objects, func(o unstructured.Unstructured) bool { return o.GetName() == name }); i >= 0 {
		return objects[i]
	}
	return unstructured.Unstructured{}
}

// lacks returns the fields, as JSON paths, that an object has no value for.
func (w *world) lacks(o unstructured.Unstructured, fields ...string) []string {
	w.t.Helper()
	var out []string
	for _, field := range fields {
		path := jsonpath.New(field).AllowMissingKeys(true)
		if err := path.Parse("{" + field + "}"); err != nil {
			w.t.Fatal(err)
		}
		var value strings.Builder
		if err := path.Execute(&value, o.Object); err != nil || value.Len() == 0 {
			out = append(out, field)
		}
	}
	return out
}

// Headlamp's plugin for Karpenter asks the API server for what its lists, details, map and charts show (its version 0.2.0). Each of these questions
// has an answer on a cluster of slipway's.
func TestHeadlamp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "headlamp")
	w.pool("headlamp", func(p *karpv1.NodePool) {
		p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("1000")}
	})
	w.deployment("web", 1, w.podSpec("100m", "64Mi", nil))
	w.deployment("huge", 1, w.podSpec("900", "64Mi", nil))
	w.awaitRunning(1)
	claims := w.claimsOf("headlamp")
	if len(claims) != 1 {
		t.Fatalf("%d NodeClaims", len(claims))
	}
	claim := claims[0].Object.Name

	if crd := named(w.listed("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", nil), "ec2nodeclasses.karpenter.k8s.aws"); crd.Object == nil {
		t.Error("the plugin finds no AWS: there is no CRD of EC2NodeClasses")
	}
	w.await(t, "the fields that the plugin's lists and details show", func() bool {
		missing := w.lacks(named(w.listed("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", nil), "default"), `.spec.role`, `.spec.subnetSelectorTerms`, `.spec.securityGroupSelectorTerms`,
			`.status.instanceProfile`, `.status.securityGroups[*].id`, `.status.subnets[*].id`, `.status.subnets[*].zone`, `.status.conditions[?(@.type=="Ready")].status`)
		missing = append(missing, w.lacks(named(w.listed("/apis/karpenter.sh/v1/nodepools", nil), "headlamp"), `.spec.template.spec.nodeClassRef.name`, `.spec.limits.cpu`,
			`.spec.disruption.consolidationPolicy`, `.spec.disruption.consolidateAfter`, `.spec.disruption.budgets`, `.spec.template.spec.requirements`,
			`.status.resources.cpu`, `.status.resources.memory`, `.status.resources.nodes`, `.status.resources.pods`, `.status.conditions[?(@.type=="Ready")].status`)...)
		missing = append(missing, w.lacks(named(w.listed("/apis/karpenter.sh/v1/nodeclaims", nil), claim), `.metadata.ownerReferences[*].kind`, `.metadata.labels.node\.kubernetes\.io/instance-type`,
			`.metadata.labels.topology\.kubernetes\.io/zone`, `.metadata.labels.karpenter\.sh/capacity-type`, `.spec.resources.requests.cpu`, `.spec.resources.requests.pods`,
			`.status.conditions[-1:].reason`, `.status.allocatable.cpu`, `.status.allocatable.pods`, `.status.nodeName`)...)
		if len(missing) > 0 {
			t.Logf("missing: %v", missing)
		}
		return len(missing) == 0
	})
	w.headlampMap(claim)
	w.headlampEvents()
	w.headlampCharts()
}

// headlampMap holds that the plugin's map finds the way from NodePool to NodeClaim to Node.
func (w *world) headlampMap(claim string) {
	w.t.Helper()
	owned := func(by, name string) func(unstructured.Unstructured) bool {
		return func(o unstructured.Unstructured) bool {
			for _, ref := range o.GetOwnerReferences() {
				if ref.Kind == by && ref.Name == name {
					return true
				}
			}
			return false
		}
	}
	if !slices.ContainsFunc(w.listed("/apis/karpenter.sh/v1/nodeclaims", nil), owned("NodePool", "headlamp")) {
		w.t.Error("no NodeClaim is owned by its NodePool")
	}
	if !slices.ContainsFunc(w.listed("/api/v1/nodes", nil), owned("NodeClaim", claim)) {
		w.t.Error("no Node is owned by its NodeClaim")
	}
}

// headlampEvents holds that the plugin's lists of Events have the placement of the pod that runs and the reason of the one that does not.
func (w *world) headlampEvents() {
	w.t.Helper()
	about := func(selector, pod string) func() bool {
		return func() bool {
			return slices.ContainsFunc(w.listed("/api/v1/events", url.Values{"fieldSelector": {selector}}), func(e unstructured.Unstructured) bool {
				object, _, _ := unstructured.NestedString(e.Object, "involvedObject", "namespace")
				name, _, _ := unstructured.NestedString(e.Object, "involvedObject", "name")
				return object == w.name && strings.HasPrefix(name, pod) && len(w.lacks(e, `.type`, `.reason`, `.message`)) == 0
			})
		}
	}
	w.await(w.t, "the placement decision of the pod that runs", about("source=karpenter,involvedObject.kind=Pod,reason=Nominated", "web-"))
	w.await(w.t, "why the other pod is pending", about("reason=FailedScheduling,involvedObject.kind=Pod,involvedObject.fieldPath!=spec.initContainers{*}", "huge-"))
	if pods := w.listed("/api/v1/pods", url.Values{"fieldSelector": {"status.phase=" + string(corev1.PodPending)}}); !slices.ContainsFunc(pods, func(p unstructured.Unstructured) bool {
		return p.GetNamespace() == w.name && strings.HasPrefix(p.GetName(), "huge-")
	}) {
		w.t.Error("the pending pod is not listed by its phase")
	}
}

// headlampCharts holds that each metric that the charts of a NodePool and of a NodeClaim ask Prometheus for has a series with the label they ask by.
func (w *world) headlampCharts() {
	w.t.Helper()
	w.await(w.t, "the metrics of Headlamp's charts", func() bool {
		families := w.launcherMetrics()
		has := func(name, label, value string) bool {
			for _, series := range families[name].GetMetric() {
				for _, pair := range series.GetLabel() {
					if pair.GetName() == label && pair.GetValue() == value {
						return true
					}
				}
			}
			w.t.Logf("no series of %s has %s=%s yet", name, label, value)
			return false
		}
		return has("karpenter_nodepools_usage", "nodepool", "headlamp") && has("karpenter_nodepools_limit", "nodepool", "headlamp") &&
			has("karpenter_nodepools_allowed_disruptions", "nodepool", "headlamp") && has("karpenter_pods_state", "phase", "Pending") &&
			has("karpenter_nodeclaims_created_total", "nodepool", "headlamp") && has("operator_nodeclaim_status_condition_transition_seconds", "type", "Ready")
	})
}
