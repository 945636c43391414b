package chart_test

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "write the kustomize base from the chart")
	os.Exit(m.Run())
}

// objects by kind, namespace and name.
type objects map[string]client.Object

// decode reads each document strictly, and each object once. Kinds of the Prometheus operator are read as they are.
func decode(t *testing.T, documents [][]byte) objects {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	out := objects{}
	for _, document := range documents {
		var o client.Object
		if bytes.Contains(document, []byte("apiVersion: monitoring.coreos.com/v1\n")) {
			u := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(document, &u.Object); err != nil {
				t.Fatal(err)
			}
			o = u
		} else {
			decoded, _, err := decoder.Decode(document, nil, nil)
			if err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			o = decoded.(client.Object)
		}
		name := o.GetName()
		if o.GetNamespace() != "" {
			name = o.GetNamespace() + "/" + name
		}
		id := o.GetObjectKind().GroupVersionKind().Kind + " " + name
		if out[id] != nil {
			t.Errorf("%s is there twice", id)
		}
		out[id] = o
	}
	return out
}

// The kustomize base is the rendered chart, and so are its components: one source, two ways to install.
func TestKustomizeIsTheChart(t *testing.T) {
	values := func(admission map[string]any) map[string]any {
		return map[string]any{"settings": map[string]any{"clusterName": "set-me"}, "admission": admission}
	}
	base := rendered(t, values(map[string]any{}))
	same(t, "../kustomize/base/slipway.yaml", base)
	for _, scope := range []string{"namespaces", "cluster"} {
		all := rendered(t, values(map[string]any{"enabled": true, "scope": scope}))
		policy := slices.DeleteFunc(all, func(document []byte) bool { return !bytes.Contains(document, []byte("kind: MutatingAdmission")) })
		same(t, "../kustomize/components/admission-"+scope+"/policy.yaml", policy)
	}
}

func rendered(t *testing.T, values map[string]any) [][]byte {
	t.Helper()
	documents, err := chart.Release{Chart: folder, Name: "slipway", Namespace: "kube-system", Values: values}.Render()
	if err != nil {
		t.Fatal(err)
	}
	for i, document := range documents {
		text := strings.ReplaceAll(string(document), "    app.kubernetes.io/managed-by: Helm\n", "")
		documents[i] = []byte(strings.TrimSpace(text) + "\n")
	}
	return documents
}

func same(t *testing.T, path string, documents [][]byte) {
	t.Helper()
	want := bytes.Join(documents, []byte("---\n"))
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not the chart's; -chart +file (`go test ./manifests/chart -args -rewrite` writes it)\n%s", path, diff)
	}
}

func build(t *testing.T, overlay string) objects {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../kustomize/"+overlay)
	if err != nil {
		t.Fatal(err)
	}
	var documents [][]byte
	for _, resource := range all.Resources() {
		document, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
	return decode(t, documents)
}

func TestOverlays(t *testing.T) {
	base := build(t, "base")
	for overlay, cluster := range map[string]string{"overlays/eks": "my-cluster", "overlays/kind": "slipway"} {
		got := build(t, overlay)
		for id := range base {
			if got[id] == nil {
				t.Errorf("%s lacks %s", overlay, id)
			}
		}
		pod := got["Deployment kube-system/slipway"].(*appsv1.Deployment).Spec.Template.Spec
		i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "controller" })
		if env := pod.Containers[i].Env; !slices.Contains(env, corev1.EnvVar{Name: "CLUSTER_NAME", Value: cluster}) {
			t.Errorf("%s: %+v", overlay, env)
		}
		if len(pod.Containers) != 2 || pod.Containers[i].Image == "" {
			t.Errorf("%s: %+v", overlay, pod.Containers)
		}
	}
	if build(t, "overlays/kind")["MutatingAdmissionPolicy slipway"] == nil {
		t.Error("kind has no admission policy")
	}
	for id := range build(t, "overlays/sandbox") {
		kind, _, _ := strings.Cut(id, " ")
		if !slices.Contains([]string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "ConfigMap", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}, kind) {
			t.Errorf("sandbox: %s of %v", id, slices.Sorted(maps.Keys(base)))
		}
	}
}
