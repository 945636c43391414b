package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// pendingYAML is a pod as an API server returns it, which its scheduler has refused.
const pendingYAML = `
metadata: {namespace: default, name: web, uid: u1, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  schedulerName: slipway
  containers: [{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
status:
  phase: Pending
  conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: no nodes available}]
`

// serve answers like an API server: what is not among the answers is not found, a Status has its own code, and a function is asked for each answer.
func serve(t *testing.T, answers map[string]any) (kubeconfig string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			answer = failure(http.StatusNotFound, metav1.StatusReasonNotFound, hostile)
		}
		if next, changes := answer.(func() any); changes {
			answer = next()
		}
		if status, failed := answer.(metav1.Status); failed {
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return write(t, "kubeconfig", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`, s.URL))
}

func failure(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: code, Message: message}
}

// forbidden is the answer to a user who lacks the right.
func forbidden() metav1.Status {
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no right")
}

// cluster are the answers of a cluster that has these and no other objects, in addition to those given.
func cluster(answers map[string]any) map[string]any {
	out := map[string]any{
		"/api":                       metav1.APIVersions{Versions: []string{"v1"}},
		"/apis":                      groups("karpenter.sh", "karpenter.k8s.aws"),
		"/api/v1":                    resources("v1", "pods", "Pod", "nodes", "Node", "events", "Event", "configmaps", "ConfigMap"),
		"/apis/karpenter.sh/v1":      resources("karpenter.sh/v1", "nodeclaims", "NodeClaim", "nodepools", "NodePool"),
		"/apis/karpenter.k8s.aws/v1": resources("karpenter.k8s.aws/v1", "ec2nodeclasses", "EC2NodeClass"),
	}
	for _, path := range []string{
		"/api/v1/pods", "/api/v1/nodes", "/api/v1/events", "/api/v1/namespaces/default/events", "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodepools",
		"/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
	} {
		out[path] = json.RawMessage(`{"items": []}`)
	}
	maps.Copy(out, answers)
	return out
}

// object is the JSON of an object in YAML.
func object(t *testing.T, text string) json.RawMessage {
	t.Helper()
	out, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// items is a list of objects in YAML.
func items(t *testing.T, texts ...string) map[string]any {
	t.Helper()
	var out []json.RawMessage
	for _, text := range texts {
		out = append(out, object(t, text))
	}
	return map[string]any{"items": out}
}
