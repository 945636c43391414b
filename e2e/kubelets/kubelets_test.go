package kubelets_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

const objects = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: KarpenterNodeRole-slipway
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: slipway}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: slipway}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {team: a}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [ARCH]}
      - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["4"]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {team: a}
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: example.com/some/web:1
        resources: {requests: {cpu: 1200m, memory: 256Mi}}
`

// Pods run in containers on kubelets that know nothing of slipway, on nodes that it planned and created before they
// booted; when they go, their machines go, and leave nothing on the host.
func TestPodsRunOnRealKubelets(t *testing.T) {
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sb, err := sandbox.Start(ctx, sandbox.Config{
		Speed: 10, BinDir: binaries(), Machines: sandbox.RealKubelets,
		Progress: func(text string) { t.Log(text) }, Notice: func(text string) { t.Log(text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		if err := sb.Stop(); err != nil {
			t.Error(err)
		}
	}()
	recorder, err := observe.New(sb.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := recorder.Start(ctx); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(sb.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	create(t, c)
	await := func(what string, done func() bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		if err := recorder.Await(ctx, what, done); err != nil {
			t.Fatalf("not within two minutes: %s\n%s", what, sb.Tail(sandbox.Launcher, 30))
		}
	}
	await("six running pods", func() bool { return running(recorder) == 6 })
	nodes := recorder.Nodes()
	if len(nodes) != 2 {
		t.Errorf("six pods of 1.2 cores run on %d nodes of 4", len(nodes))
	}
	for _, n := range nodes {
		checkNode(t, n)
	}
	checkBindings(t, recorder)
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	if err := c.Patch(ctx, web, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))); err != nil {
		t.Fatal(err)
	}
	await("no node", func() bool { return alive(recorder) == 0 })
	await("no machine", func() bool {
		left, err := os.ReadDir(filepath.Join(sb.Folder(), "machines"))
		return err == nil && len(left) == 0
	})
}

// running counts the pods that have a container and an address.
func running(recorder *observe.Recorder) int {
	count := 0
	for _, p := range recorder.Pods() {
		if p.Object.Namespace == "default" && p.Object.Status.Phase == corev1.PodRunning && p.Object.Status.PodIP != "" {
			count++
		}
	}
	return count
}

// checkBindings looks whether ordinary pods were bound when their nodes were Ready, not before.
func checkBindings(t *testing.T, recorder *observe.Recorder) {
	t.Helper()
	for _, p := range recorder.Pods() {
		if p.Object.Namespace == "default" && (!p.Bound.Seen() || p.Bound.At.Before(ready(recorder.Nodes(), p.Object.Spec.NodeName))) {
			t.Errorf("pod %s was bound at %v, before its node was Ready", p.Object.Name, p.Bound.At)
		}
	}
}

func binaries() string {
	if dir := os.Getenv("SLIPWAY_BIN_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "bin")
}

func create(t *testing.T, c client.Client) {
	t.Helper()
	into := []client.Object{&awsv1.EC2NodeClass{}, &karpv1.NodePool{}, &appsv1.Deployment{}}
	for i, document := range strings.Split(strings.ReplaceAll(objects, "ARCH", runtime.GOARCH), "---\n") {
		if err := yaml.UnmarshalStrict([]byte(document), into[i]); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), into[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// checkNode compares what the kubelet says with what EC2 sold.
func checkNode(t *testing.T, n observe.Node) {
	t.Helper()
	info, capacity := n.Object.Status.NodeInfo, n.Object.Status.Capacity
	if !strings.HasPrefix(info.KubeletVersion, "v1.36.") || !strings.HasPrefix(info.ContainerRuntimeVersion, "containerd://") {
		t.Errorf("node %s has kubelet %q with %q", n.Object.Name, info.KubeletVersion, info.ContainerRuntimeVersion)
	}
	if got := capacity.Cpu().Value(); got != 4 {
		t.Errorf("node %s has %d CPUs", n.Object.Name, got)
	}
	if n.Object.Labels["team"] != "a" || n.Object.Spec.ProviderID == "" {
		t.Errorf("node %s has labels %v and providerID %q", n.Object.Name, n.Object.Labels, n.Object.Spec.ProviderID)
	}
}

func ready(nodes []observe.Node, name string) time.Time {
	for _, n := range nodes {
		if n.Object.Name == name {
			return n.Ready.At
		}
	}
	return time.Time{}
}

func alive(recorder *observe.Recorder) int {
	count := 0
	for _, n := range recorder.Nodes() {
		if !n.Deleted.Seen() {
			count++
		}
	}
	return count
}
