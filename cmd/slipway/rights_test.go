package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ends holds that a command prints these parts, and not those.
func ends(t *testing.T, printed string, parts, not []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(printed, part) {
			t.Errorf("%q is missing in:\n%s", part, printed)
		}
	}
	for _, part := range not {
		if strings.Contains(printed, part) {
			t.Errorf("%q is in:\n%s", part, printed)
		}
	}
}

// Who has rights in one namespace alone sees what the pod and its Events say, and what was not read.
func TestExplainPodWithRightsInOneNamespace(t *testing.T) {
	const unscheduled = `{metadata: {namespace: default, name: new, uid: u2, creationTimestamp: "2026-01-01T00:00:00Z"}, spec: {schedulerName: other, containers: [{name: main}]}, status: {phase: Pending}}`
	const event = `{metadata: {namespace: default, name: e}, reason: FailedScheduling, message: of the scheduler}`
	answers := map[string]any{
		"/api/v1/namespaces/default/pods/web": object(t, pendingYAML),
		"/api/v1/namespaces/default/pods/new": object(t, unscheduled),
		"/api/v1/namespaces/default/events":   items(t, event),
	}
	for _, path := range []string{
		"/api/v1/pods", "/api/v1/nodes", "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
		"/api/v1/namespaces/kube-system/configmaps/slipway-commitments", "/api/v1/namespaces/kube-system/configmaps/slipway-interruptions",
	} {
		answers[path] = forbidden()
	}
	config := serve(t, cluster(answers))
	unread := "You may not list pods of all namespaces, nodes, NodeClaims: what they say is left out."
	unsaid := []string{"No node is on its way", "Schedulers that handle other pods"}
	for pod, parts := range map[string][]string{
		"web": {"Pod default/web: pending", "no nodes available", unread, "of the scheduler"},
		"new": {"Pod default/new: pending", "no scheduler serves the pod", unread},
	} {
		out, errs, err := slipway(t, "", "explain", "pod", pod, "--kubeconfig", config)
		if err != nil {
			t.Errorf("%s: %v", pod, err)
		}
		ends(t, out, parts, unsaid)
		if planned := strings.Contains(errs, "reading the cluster"); planned != (pod == "web") {
			t.Errorf("%s: standard error: %s", pod, errs)
		}
	}
	answers["/api/v1/namespaces/default/events"] = forbidden()
	out, _, err := slipway(t, "", "explain", "pod", "web", "--kubeconfig", serve(t, cluster(answers)))
	if err != nil {
		t.Error(err)
	}
	ends(t, out, []string{"no nodes available", "nodes, NodeClaims, Events: what they say is left out."}, append(unsaid, "Events:\n"))
}

// What is not forbidden and fails is an error, and without rights in the cluster its overview is one.
func TestReadsThatFail(t *testing.T) {
	answers := map[string]any{"/api/v1/namespaces/default/pods/web": object(t, pendingYAML), "/api/v1/nodes": failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd")}
	if out, _, err := slipway(t, "", "explain", "pod", "web", "--kubeconfig", serve(t, cluster(answers))); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("explain: %v\n%s", err, out)
	}
	answers["/api/v1/nodes"] = forbidden()
	if out, _, err := slipway(t, "", "status", "--kubeconfig", serve(t, cluster(answers))); err == nil || !strings.Contains(err.Error(), "no right") {
		t.Errorf("status: %v\n%s", err, out)
	}
}

// Who may not list EC2NodeClasses misses one hint of the overview.
func TestStatusWithoutTheRightToEC2NodeClasses(t *testing.T) {
	config := serve(t, cluster(map[string]any{"/apis/karpenter.k8s.aws/v1/ec2nodeclasses": forbidden()}))
	if out, _, err := slipway(t, "", "status", "--kubeconfig", config); err != nil || !strings.HasPrefix(out, "0 nodes, ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A cluster without the CRDs is told from one without nodes, and how they are installed is said.
func TestClusterWithoutCRDs(t *testing.T) {
	answers := cluster(map[string]any{"/apis": groups(), "/api/v1/namespaces/default/pods/web": object(t, pendingYAML)})
	for path := range answers {
		if strings.HasPrefix(path, "/apis/karpenter") {
			delete(answers, path)
		}
	}
	config := serve(t, answers)
	for _, args := range []string{"status", "learned", "learned default --forget", "explain node a", "explain pod web"} {
		out, _, err := slipway(t, "", append(strings.Fields(args), "--kubeconfig", config)...)
		if err == nil || !strings.HasPrefix(err.Error(), "the CRDs of slipway, which are Karpenter's, are not installed in this cluster") || !strings.Contains(err.Error(), "slipway-crds") {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}

// A name that no EC2NodeClass has is an error, and one without reports is none.
func TestLearnedOfNoEC2NodeClass(t *testing.T) {
	config := serve(t, cluster(map[string]any{"/apis/karpenter.k8s.aws/v1/ec2nodeclasses": items(t, "metadata: {name: default}")}))
	if out, _, err := slipway(t, "", "learned", "defualt", "--kubeconfig", config); err == nil || err.Error() != "EC2NodeClass defualt: there is none" || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"learned"}, {"learned", "default"}} {
		if out, _, err := slipway(t, "", append(slices.Clone(args), "--kubeconfig", config)...); err != nil || !strings.HasPrefix(out, "EC2NODECLASS") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
