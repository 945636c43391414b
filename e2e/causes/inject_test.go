package causes_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/causes/catalogue"
	"github.com/slipway-k8s/slipway/e2e/objects"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// injected is a cause in the sandbox.
type injected struct {
	*lab
	*catalogue.Cause
	t *testing.T
}

// the base of each cause: pods of a Deployment that select the cause's NodePool, whose nodes no other pods tolerate.
const (
	baseNamespace = `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`
	baseNodePool  = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: $NAME}, spec: {
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never, budgets: [{nodes: "100%"}]},
  template: {spec: {
    nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default},
    taints: [{key: cause, value: $NAME, effect: NoSchedule}],
    requirements: [
      {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]},
      {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6i]},
      {key: kubernetes.io/arch, operator: In, values: [amd64]}]}}}}`
	baseDeployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: $NAME}, spec: {
  selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web}}, spec: {
    terminationGracePeriodSeconds: 1,
    nodeSelector: {karpenter.sh/nodepool: $NAME},
    tolerations: [{key: cause, value: $NAME, effect: NoSchedule}],
    containers: [{name: main, image: "registry.example/main:1", resources: {requests: {cpu: 500m, memory: 512Mi}}}]}}}}`
)

// read returns the objects of YAML documents about the cause.
func (i *injected) read(text string) []*unstructured.Unstructured {
	i.t.Helper()
	out, err := objects.Read(strings.NewReader(strings.ReplaceAll(text, "$NAME", i.Name)))
	if err != nil {
		i.t.Fatal(err)
	}
	return out
}

// merged returns fields with a JSON merge patch applied (RFC 7386).
func merged(fields, patch map[string]any) map[string]any {
	out := maps.Clone(fields)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		below, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap:
			within, _ := out[key].(map[string]any)
			out[key] = merged(within, below)
		default:
			out[key] = value
		}
	}
	return out
}

// create creates objects, and those with a namespace in that of the cause. What it creates is deleted with the cause.
func (i *injected) create(all ...client.Object) {
	i.t.Helper()
	for _, o := range all {
		namespaced, err := i.API.IsObjectNamespaced(o)
		if err != nil {
			i.t.Fatal(err)
		}
		if namespaced && o.GetNamespace() == "" {
			o.SetNamespace(i.Name)
		}
		if err := i.API.Create(i.t.Context(), o); err != nil {
			i.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
		if !namespaced {
			i.t.Cleanup(func() { i.remove(o) })
		}
	}
}

// namespace of the cause, with the ServiceAccount without which no pod is admitted.
func (i *injected) inject() {
	i.t.Helper()
	for _, o := range i.read(baseNamespace) {
		i.create(&unstructured.Unstructured{Object: merged(o.Object, i.Namespace)})
	}
	if i.NodeClass != nil {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sandbox.NodeClass(i.Name))
		if err != nil {
			i.t.Fatal(err)
		}
		class := &unstructured.Unstructured{Object: merged(fields, i.NodeClass)}
		class.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"})
		unstructured.RemoveNestedField(class.Object, "status")
		i.create(class)
	}
	i.fault()
	for _, pool := range i.read(baseNodePool) {
		fields := pool.Object
		if i.NodeClass != nil {
			ref := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": i.Name}}}}}
			fields = merged(fields, ref)
		}
		i.create(&unstructured.Unstructured{Object: merged(fields, i.NodePool)})
	}
	for _, o := range i.read(i.Before) {
		i.create(o)
	}
	for _, d := range i.read(baseDeployment) {
		i.create(&unstructured.Unstructured{Object: merged(d.Object, map[string]any{"spec": map[string]any{"replicas": int64(i.Pods()), "template": i.Pod}})})
	}
}

// apply does what the edit says.
func (i *injected) apply() {
	i.t.Helper()
	kind, name, patch := schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, types.NamespacedName{Name: i.Name}, i.Apply.NodePool
	if patch == nil {
		kind, name = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, types.NamespacedName{Namespace: i.Name, Name: "web"}
		patch = map[string]any{"spec": map[string]any{"strategy": map[string]any{"type": "Recreate", "rollingUpdate": nil}, "template": i.Apply.Pod}}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(name.Namespace)
	o.SetName(name.Name)
	text, err := json.Marshal(patch)
	if err != nil {
		i.t.Fatal(err)
	}
	if err := i.API.Patch(i.t.Context(), o, client.RawPatch(types.MergePatchType, text)); err != nil {
		i.t.Fatalf("applying %q: %v", i.Edit, err)
	}
	for _, o := range i.read(i.Apply.After) {
		i.create(o)
	}
}
