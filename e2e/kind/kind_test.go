package kind_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/manifests"
)

// patience is how long a step may take on a busy host.
const patience = 6 * time.Minute

// overlayEndpoint is where the overlay for kind looks for the AWS.
const overlayEndpoint = "http://172.18.0.1:4566"

// nodePool asks for instances that a host of two cores can be.
const nodePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: kubernetes.io/os, operator: In, values: [linux]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["2"]}
        - {key: karpenter.k8s.aws/instance-memory, operator: Lt, values: ["9000"]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["4"]}
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s, budgets: [{nodes: 100%}]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: KarpenterNodeRole-slipway
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: slipway}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: slipway}}]
`

// The default scheduler stays: pods come to slipway by name, by admission policy, and, with slipway from its chart, by adoption.
func TestBesideTheDefaultScheduler(t *testing.T) {
	c := newCluster(t, "slipway-beside")
	c.helm(t, "upgrade", "--install", "slipway-crds", packed(t, "slipway-crds"))
	c.apply(t, c.overlay(t))
	c.ready(t, "Deployment slipway to be there", func(ctx context.Context) (bool, error) {
		var d appsv1.Deployment
		err := c.client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "slipway"}, &d)
		return d.Status.ReadyReplicas == 1, err
	})
	c.apply(t, nodePool)
	t.Run("names resolve", c.namesResolve)
	t.Run("containers", c.containersHold)
	t.Run("policies", func(t *testing.T) {
		c.policiesHold(t, sharedPolicies())
		c.holdsNodes(t, c.bearing(t, c.launcher(t).token(t), "slipway"))
	})
	t.Run("by name", func(t *testing.T) {
		c.served(t, workload{name: "by-name", scheduler: "slipway", spec: "schedulerName: slipway"})
	})
	t.Run("by admission policy", func(t *testing.T) {
		c.served(t, workload{name: "by-policy", scheduler: "slipway", labels: map[string]string{"slipway.dev/schedule": "true"}})
	})
	t.Run("by adoption from the chart", c.fromTheChart)
}

// slipway is the cluster's only scheduler, as a static Pod in kube-scheduler's place.
func TestInsteadOfTheDefaultScheduler(t *testing.T) {
	c := newCluster(t, "slipway-instead")
	c.apply(t, string(read(t, filepath.Join(os.Getenv("SLIPWAY_CHARTS_DIR"), "crds.yaml"))))
	c.replaceScheduler(t)
	c.apply(t, nodePool)
	c.served(t, workload{name: "everyone", scheduler: "default-scheduler", meanwhile: func(t *testing.T) {
		t.Helper()
		c.containersHold(t)
		c.kubeconfigsHold(t)
		c.policiesHold(t, ownPolicies())
		launcher := c.withConfig(t, "/etc/kubernetes/slipway/launcher.conf", "slipway-launcher")
		c.holdsNodes(t, launcher)
		c.holdsPods(t, launcher)
		holdsScheduler(t, c.withConfig(t, "/etc/kubernetes/slipway/scheduler.conf", "slipway-scheduler"))
	}})
	c.namesResolve(t)
	var pods corev1.PodList
	if err := c.client.List(t.Context(), &pods, client.InNamespace("kube-system"), client.MatchingLabels{"component": "kube-scheduler"}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if !strings.HasPrefix(pod.Name, "slipway-") {
			t.Errorf("%s runs beside slipway", pod.Name)
		}
	}
}

// kubeconfigsHold holds that each container of the static Pod sees its own kubeconfig alone.
func (c *cluster) kubeconfigsHold(t *testing.T) {
	t.Helper()
	for name, container := range map[string]container{"launcher": c.launcher(t), "scheduler": c.scheduler(t)} {
		folder := "/proc/" + container.pid + "/root/etc/kubernetes/slipway"
		if have, want := docker(t, nil, "exec", c.controlPlane(), "ls", folder), name+".conf\n"+name+".yaml\n"; have != want {
			t.Errorf("%s sees the files %q, want %q", container.program, have, want)
		}
	}
}

// overlay is the kustomize overlay for kind, for the AWS of this cluster.
func (c *cluster) overlay(t *testing.T) string {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../manifests/kustomize/overlays/kind")
	if err != nil {
		t.Fatal(err)
	}
	text, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	out := strings.ReplaceAll(string(text), overlayEndpoint, c.aws.URL())
	if out == string(text) {
		t.Fatalf("the overlay does not name %s", overlayEndpoint)
	}
	return out
}

// replaceScheduler does what docs/static-pod.md says.
func (c *cluster) replaceScheduler(t *testing.T) {
	t.Helper()
	folder := manifestsFolder + "/static-pod/"
	for _, name := range []string{"scheduler.yaml", "launcher.yaml"} {
		c.write(t, "/etc/kubernetes/slipway/"+name, read(t, folder+name))
	}
	for user, name := range map[string]string{manifests.SchedulerUser: "scheduler.conf", manifests.LauncherUser: "launcher.conf"} {
		config := docker(t, nil, "exec", c.controlPlane(), "kubeadm", "kubeconfig", "user", "--config", "/kind/kubeadm.conf", "--client-name", user)
		c.write(t, "/etc/kubernetes/slipway/"+name, []byte(config))
	}
	for _, name := range []string{"rbac/scheduler.yaml", "rbac/launcher.yaml", "admission/launcher.yaml"} {
		c.kubectl(t, read(t, manifestsFolder+"/"+name), "apply", "-f", "-")
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(read(t, folder+"slipway.yaml"), &pod); err != nil {
		t.Fatal(err)
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name != "controller" {
			continue
		}
		for name, value := range map[string]string{
			"AWS_ENDPOINT_URL": c.aws.URL(), "AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox", "AWS_EC2_METADATA_DISABLED": "true",
		} {
			pod.Spec.Containers[i].Env = append(pod.Spec.Containers[i].Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	manifest, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	docker(t, nil, "exec", c.controlPlane(), "chown", "-R", "65532:65532", "/etc/kubernetes/slipway")
	docker(t, nil, "exec", c.controlPlane(), "mv", "/etc/kubernetes/manifests/kube-scheduler.yaml", "/etc/kubernetes/")
	c.write(t, "/etc/kubernetes/manifests/slipway.yaml", manifest)
	c.ready(t, "the static Pod to be ready and kube-scheduler gone", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := c.client.List(ctx, &pods, client.InNamespace("kube-system"), client.MatchingLabels{"component": "kube-scheduler"}); err != nil {
			return false, err
		}
		return len(pods.Items) == 1 && strings.HasPrefix(pods.Items[0].Name, "slipway-") && isReady(&pods.Items[0]), nil
	})
}

const manifestsFolder = "../../manifests"

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// write puts a file on the control plane.
func (c *cluster) write(t *testing.T, path string, data []byte) {
	t.Helper()
	docker(t, data, "exec", "-i", c.controlPlane(), "sh", "-c", `mkdir -p "$(dirname "$0")" && cat >"$0.new" && chmod 0600 "$0.new" && mv "$0.new" "$0"`, path)
}

// workload is a Deployment whose pods need nodes.
type workload struct {
	// name of its namespace; scheduler is what its pods name once they are created.
	name, scheduler string
	// labels of the namespace.
	labels map[string]string
	// spec is a line of the pods' own.
	spec string
	// meanwhile is called while the pods run; nil is nothing.
	meanwhile func(*testing.T)
}

// served creates a workload, sees its pods run on launched nodes, and the nodes removed after the pods.
func (c *cluster) served(t *testing.T, w workload) {
	t.Helper()
	const replicas = 3
	name := w.name
	namespace := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels:\n    e2e: kind\n", name)
	for key, value := range w.labels {
		namespace += fmt.Sprintf("    %s: %q\n", key, value)
	}
	begin := time.Now()
	c.apply(t, namespace)
	c.apply(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %s, name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {karpenter.sh/nodepool: default}
      containers: [{name: web, image: "registry.k8s.io/pause:3.10", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 600m, memory: 200Mi}}}]
      %s
`, name, replicas, w.spec))
	nodes := map[string]bool{}
	c.ready(t, name+": pods to run", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := c.client.List(ctx, &pods, client.InNamespace(name)); err != nil {
			return false, err
		}
		running := 0
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Status.Phase == corev1.PodFailed {
				return false, fmt.Errorf("pod %s failed: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
			}
			if pod.Spec.SchedulerName != w.scheduler {
				return false, fmt.Errorf("pod %s is %s's, want %s's", pod.Name, pod.Spec.SchedulerName, w.scheduler)
			}
			if isReady(pod) {
				running++
				nodes[pod.Spec.NodeName] = true
			}
		}
		return running == replicas, nil
	})
	var claims karpv1.NodeClaimList
	if err := c.client.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d pods run on %d nodes of %d claims %.1f s after they were created", name, replicas, len(nodes), len(claims.Items), time.Since(begin).Seconds())
	if len(claims.Items) != len(nodes) {
		t.Errorf("%d claims for the %d nodes that pods run on", len(claims.Items), len(nodes))
	}
	if w.meanwhile != nil {
		w.meanwhile(t)
	}
	c.kubectl(t, nil, "delete", "namespace", name, "--wait=false")
	c.ready(t, name+": nodes to go", func(ctx context.Context) (bool, error) {
		var left karpv1.NodeClaimList
		if err := c.client.List(ctx, &left); err != nil {
			return false, err
		}
		out, err := run(ctx, nil, "docker", "ps", "--quiet", "--filter", "name=^i-")
		return len(left.Items) == 0 && strings.TrimSpace(out) == "", err
	})
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ready waits for something to be so; it looks again after an error until patience ends.
func (c *cluster) ready(t *testing.T, what string, is func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		done, err := is(ctx)
		last = err
		return done && err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, errors.Join(err, last))
	}
}
