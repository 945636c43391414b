package controlplane_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/controlplane"
	"github.com/slipway-k8s/slipway/manifests/chart"
)

// dynamicClient finds kinds as kubectl does, CRDs included.
func dynamicClient(t *testing.T, cp *controlplane.ControlPlane) client.Client {
	t.Helper()
	config, err := cp.RESTConfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// apply is kubectl apply --server-side, with strict validation.
func apply(t *testing.T, c client.Client, document []byte, options ...client.ApplyOption) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), append(options, client.ForceOwnership, client.FieldOwner("test"))...)
}

// What slipway convert writes is what the API server takes, CEL rules included: all that is complete.
func convertedManifestsAreValid(t *testing.T, c client.Client) {
	t.Helper()
	files, err := filepath.Glob("../../launcher/convert/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sections := map[string][]byte{}
		for _, f := range archive.Files {
			sections[f.Name] = f.Data
		}
		if bytes.Contains(sections["findings"], []byte("missing: ")) {
			continue
		}
		for _, document := range documents(t, sections["want.yaml"]) {
			if !bytes.Contains(document, []byte("karpenter")) {
				continue
			}
			if err := apply(t, c, document, client.DryRunAll); err != nil {
				t.Errorf("%s: %v in\n%s", filepath.Base(file), err, document)
			}
			applied++
		}
	}
	if applied < 10 {
		t.Errorf("%d objects of %d files were tried", applied, len(files))
	}
}

func documents(t *testing.T, text []byte) [][]byte {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var out [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, document)
	}
}

// rendered is the chart's objects that every API server knows.
func rendered(t *testing.T, values map[string]any) [][]byte {
	t.Helper()
	all, err := chart.Release{Chart: "../../manifests/charts/slipway", Name: "slipway", Namespace: "kube-system", Values: values}.Render()
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, document := range all {
		if !bytes.Contains(document, []byte("apiVersion: monitoring.coreos.com/")) {
			out = append(out, document)
		}
	}
	return out
}

func chartIsAccepted(t *testing.T, c client.Client) {
	t.Helper()
	for name, values := range map[string]map[string]any{
		"minimal": {"settings": map[string]any{"clusterName": "prod"}},
		"more": {
			"settings":  map[string]any{"clusterName": "prod", "interruptionQueue": "prod"},
			"admission": map[string]any{"enabled": true},
			"dashboard": map[string]any{"enabled": true}, "networkPolicy": map[string]any{"enabled": true},
		},
		"replaces": {"settings": map[string]any{"clusterName": "prod"}, "scheduler": map[string]any{"mode": "replace"}, "schedulerName": "another"},
	} {
		for _, document := range rendered(t, values) {
			if err := apply(t, c, document, client.DryRunAll); err != nil {
				t.Errorf("%s: %v in\n%s", name, err, document)
			}
		}
	}
}

// admissionSendsPods tries the policy on the real API server: who is sent to slipway, and who is left alone.
func admissionSendsPods(t *testing.T, c client.Client) {
	t.Helper()
	ctx := t.Context()
	for name, labels := range map[string]map[string]string{"chosen": {"slipway.dev/schedule": "true"}, "edge-1": nil, "batch": nil} {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}); err != nil {
			t.Fatal(err)
		}
	}
	fargate := []any{
		map[string]any{"namespace": "edge-*", "labels": map[string]any{"tier": "edge"}},
		map[string]any{"namespace": "batch", "labels": map[string]any{"example.com/*": "v1.?"}},
	}
	values := func(scope string) map[string]any {
		return map[string]any{
			"settings":  map[string]any{"clusterName": "prod"},
			"admission": map[string]any{"enabled": true, "scope": scope, "except": map[string]any{"fargate": fargate}},
		}
	}
	for _, scope := range []string{"namespaces", "cluster"} {
		inDefault := map[string]string{"namespaces": "default-scheduler", "cluster": "slipway"}[scope]
		for _, document := range rendered(t, values(scope)) {
			if bytes.Contains(document, []byte("kind: MutatingAdmission")) {
				if err := apply(t, c, document); err != nil {
					t.Fatal(err)
				}
			}
		}
		waitForScheduler(t, c, scope, "chosen", "slipway")
		waitForScheduler(t, c, scope, "default", inDefault)
	}
	// Everywhere but where it must not.
	for name, change := range map[string]func(*corev1.Pod){
		"of kube-system": func(p *corev1.Pod) { p.Namespace = "kube-system" },
		"slipway's own": func(p *corev1.Pod) {
			p.Namespace, p.Labels = "kube-system", map[string]string{"app.kubernetes.io/name": "slipway"}
		},
		"that a profile selects": func(p *corev1.Pod) { p.Namespace, p.Labels = "edge-1", map[string]string{"tier": "edge"} },
		"that a profile's wildcards select": func(p *corev1.Pod) {
			p.Namespace, p.Labels = "batch", map[string]string{"app": "a", "example.com/version": "v1.2"}
		},
		"that Fargate has already": func(p *corev1.Pod) { p.Labels = map[string]string{"eks.amazonaws.com/fargate-profile": "a"} },
		"of a DaemonSet": func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "cni", UID: "1", Controller: new(true)}}
		},
		"with a node":      func(p *corev1.Pod) { p.Spec.NodeName = "a" },
		"with a scheduler": func(p *corev1.Pod) { p.Spec.SchedulerName = "other" },
	} {
		if got := schedulerOf(t, c, change); got == "slipway" {
			t.Errorf("a pod %s is sent to slipway", name)
		}
	}
	if got := schedulerOf(t, c, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1", Controller: new(true)}}
	}); got != "slipway" {
		t.Errorf("a pod of a ReplicaSet is sent to %s", got)
	}
	for _, labels := range []map[string]string{nil, {"example.com/version": "v112"}, {"example-com/version": "v1.2"}, {"example.com/version": "v1.23", "other": "v1.2"}} {
		for _, namespace := range []string{"edge-1", "batch"} {
			if got := schedulerOf(t, c, func(p *corev1.Pod) { p.Namespace, p.Labels = namespace, labels }); got != "slipway" {
				t.Errorf("a pod of %s with the labels %v, beside the Fargate profiles', is sent to %s", namespace, labels, got)
			}
		}
	}
}

// schedulerOf is what a new pod's schedulerName becomes.
func schedulerOf(t *testing.T, c client.Client, change func(*corev1.Pod)) string {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "try-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
	change(pod)
	var err error
	// The service account of a new namespace comes a moment later.
	waited := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err = c.Create(ctx, pod, client.DryRunAll)
		if err != nil && strings.Contains(err.Error(), "serviceaccount") {
			return false, nil
		}
		return true, err
	})
	if waited != nil {
		t.Fatal(waited, err)
	}
	return pod.Spec.SchedulerName
}

// waitForScheduler gives the API server the moment it needs to see a policy.
func waitForScheduler(t *testing.T, c client.Client, scope, namespace, want string) {
	t.Helper()
	got := ""
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		got = schedulerOf(t, c, func(p *corev1.Pod) { p.Namespace = namespace })
		return got == want, nil
	})
	if err != nil {
		t.Fatalf("scope %s: a pod of %s is sent to %s, not %s: %v", scope, namespace, got, want, err)
	}
}
