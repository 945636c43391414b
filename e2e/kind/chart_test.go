package kind_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// chartValues are for one replica on a control plane of few cores, with the AWS at %s.
const chartValues = `
replicas: 1
nodeSelector: {node-role.kubernetes.io/control-plane: ""}
tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}]
settings: {clusterName: slipway, interruptionQueue: slipway}
scheduler:
  args: {adopt: [default-scheduler]}
  resources: {requests: {cpu: 100m, memory: 256Mi}}
controller:
  resources: {requests: {cpu: 100m, memory: 256Mi}}
  env:
    - {name: AWS_ENDPOINT_URL, value: %q}
    - {name: AWS_REGION, value: us-east-1}
    - {name: AWS_ACCESS_KEY_ID, value: sandbox}
    - {name: AWS_SECRET_ACCESS_KEY, value: sandbox}
    - {name: AWS_EC2_METADATA_DISABLED, value: "true"}
`

// packed is the path of a chart that `make charts` packed.
func packed(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.Getenv("SLIPWAY_CHARTS_DIR"), name+"-[0-9]*.tgz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("chart %s of SLIPWAY_CHARTS_DIR: %v, %v, want one", name, found, err)
	}
	return found[0]
}

// helm is the command of the version whose library renders the charts in other tests.
func (c *cluster) helm(t *testing.T, args ...string) {
	t.Helper()
	name := filepath.Join(os.Getenv("SLIPWAY_KIND_DIR"), "bin", "helm")
	if _, err := run(t.Context(), nil, name, append(args, "--kubeconfig", c.kubeconfig, "--namespace", "kube-system")...); err != nil {
		t.Fatal(err)
	}
}

// fromTheChart replaces the overlay by the chart, installed and then upgraded as docs/operations.md says: the scheduler gets a service account
// of its own, metrics are authenticated, and a NetworkPolicy is there. Pods come by adoption.
func (c *cluster) fromTheChart(t *testing.T) {
	c.kubectl(t, []byte(c.overlay(t)), "delete", "--filename", "-")
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, fmt.Appendf(nil, chartValues, c.aws.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.helm(t, "upgrade", "--install", "slipway", packed(t, "slipway"), "--values", values, "--wait")
	c.rolledOut(t)
	c.helm(t, "upgrade", "slipway", packed(t, "slipway"), "--reuse-values", "--set", "scheduler.serviceAccount.separate=true",
		"--set", "controller.metrics.authenticated=true", "--set", "networkPolicy.enabled=true")
	c.rolledOut(t)
	t.Run("containers", c.containersHold)
	t.Run("metrics", c.metricsHold)
	c.served(t, workload{name: "by-adoption", scheduler: "default-scheduler", meanwhile: func(t *testing.T) {
		t.Helper()
		c.policiesHold(t, ownPolicies())
		launcher := c.bearing(t, c.launcher(t).token(t), "slipway")
		c.holdsNodes(t, launcher)
		c.holdsPods(t, launcher)
		holdsScheduler(t, c.bearing(t, c.scheduler(t).token(t), "slipway-scheduler"))
	}})
	c.helm(t, "uninstall", "slipway", "--wait")
	var roles rbacv1.ClusterRoleList
	if err := c.client.List(t.Context(), &roles); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles.Items {
		if strings.HasPrefix(role.Name, "slipway") {
			t.Errorf("ClusterRole %s is there after helm uninstall", role.Name)
		}
	}
	c.policiesHold(t, nil)
}

// rolledOut waits for the Deployment's newest Pod.
func (c *cluster) rolledOut(t *testing.T) {
	t.Helper()
	c.kubectl(t, nil, "rollout", "status", "--namespace", "kube-system", "deployment/slipway", "--timeout", "5m")
}

// metricsHold holds that slipway's Pod gives its metrics to those who may read them, over TLS, and to no others.
func (c *cluster) metricsHold(t *testing.T) {
	c.apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: default, name: reads-metrics}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-metrics}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-metrics}
subjects: [{kind: ServiceAccount, namespace: default, name: reads-metrics}]
`)
	token := func(account string) string {
		return strings.TrimSpace(c.kubectl(t, nil, "create", "token", "--namespace", "default", account))
	}
	reader, other := token("reads-metrics"), token("default")
	for _, port := range []string{"8080", "10259"} {
		plain := c.scrape(t, "http", port, "")
		if plain == "200" {
			t.Errorf("port %s gives metrics over plain HTTP", port)
		}
		if got := c.scrape(t, "https", port, ""); got != "401" && got != "403" {
			t.Errorf("port %s answers a client without a token with %s", port, got)
		}
		if got := c.scrape(t, "https", port, other); got != "403" {
			t.Errorf("port %s answers a client without the right with %s, want 403", port, got)
		}
		if got := c.scrape(t, "https", port, reader); got != "200" {
			t.Errorf("port %s answers a client with the right with %s, want 200", port, got)
		}
	}
}

// scrape is the status that the metrics of slipway's Pod are answered with: 000 is none.
func (c *cluster) scrape(t *testing.T, scheme, port, token string) string {
	t.Helper()
	pod := c.pod(t)
	url := scheme + "://" + net.JoinHostPort(pod.Status.PodIP, port) + "/metrics"
	args := []string{"exec", c.controlPlane(), "curl", "--silent", "--insecure", "--max-time", "60", "--output", "/dev/null", "--write-out", "%{http_code}"}
	if token != "" {
		args = append(args, "--header", "Authorization: Bearer "+token)
	}
	// curl ends with an error where it got no answer, and prints 000 then.
	out, _ := runAll(t.Context(), nil, "docker", append(args, url)...)
	return out
}

// pod is slipway's only Pod that does not end.
func (c *cluster) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	var out *corev1.Pod
	c.ready(t, "one Pod of slipway's", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := c.client.List(ctx, &pods, client.InNamespace("kube-system"), client.MatchingLabels{"app.kubernetes.io/name": "slipway"}); err != nil {
			return false, err
		}
		var there []*corev1.Pod
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil {
				there = append(there, &pods.Items[i])
			}
		}
		if len(there) != 1 {
			return false, fmt.Errorf("%d Pods", len(there))
		}
		out = there[0]
		return true, nil
	})
	return out
}
