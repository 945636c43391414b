package commands_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

const (
	// commandTakes bounds each command, on a machine however busy: one that hangs is told from one that is slow.
	commandTakes = 5 * time.Minute
	// sandboxTakes bounds the start of the sandbox and its end.
	sandboxTakes = 5 * time.Minute
)

// order of the documents whose commands change the cluster; what operations.md shows leaves nothing of it.
func order() []string {
	return []string{"docs/buffers.md", "docs/getting-started.md", "docs/simulate.md", "docs/migrate.md", "", "docs/operations.md"}
}

// world is a folder that looks like a checkout, with a sandbox that runs.
type world struct {
	folder      string
	environment []string
}

// Every command that a sandbox can take is run in one, as it is shown.
func TestCommandsRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.script(t, "set up", setUp)
	w.top(t)
	w.dumb(t)
	all := append(commands(t), mentioned(t)...)
	for _, file := range order() {
		for _, c := range all {
			if c.file != file && (file != "" || slices.Contains(order(), c.file)) {
				continue
			}
			switch class, _ := of(c); {
			case class == watch:
				w.watch(t, c)
			case class == run && known.MatchString(c.text) && !strings.HasPrefix(c.text, "bin/slipway-sandbox up"):
				w.run(t, c)
			}
		}
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	bin := os.Getenv("SLIPWAY_BIN_DIR")
	if bin == "" {
		bin = filepath.Join(repository, "bin")
	}
	folder := t.TempDir()
	w := &world{folder: folder}
	if err := os.MkdirAll(filepath.Join(folder, "bin", "charts"), 0o700); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"manifests": filepath.Join(repository, "manifests")}
	for _, program := range []string{"slipway", "slipway-sandbox", "slipway-scheduler", "slipway-launcher"} {
		links["bin/"+program] = filepath.Join(bin, program)
	}
	for name, target := range links {
		target, err := filepath.Abs(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(w.folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.fixtures(t)
	programs := filepath.Join(w.folder, "programs")
	if err := os.Mkdir(programs, 0o700); err != nil {
		t.Fatal(err)
	}
	w.environment = append(os.Environ(), "PATH="+programs+":"+filepath.Join(w.folder, "bin")+":"+os.Getenv("PATH"),
		// Sandboxes that others run are not found.
		"TMPDIR="+w.folder, "HOME="+w.folder, "CLUSTER_NAME=slipway", "KARPENTER_NAMESPACE=kube-system", "KUBECACHEDIR="+w.folder)
	if _, err := exec.LookPath("kubectl"); err != nil {
		w.kubectl(t, programs)
	}
	kubeconfig := filepath.Join(w.folder, "kubeconfig")
	w.up(t, kubeconfig)
	w.environment = append(w.environment, "KUBECONFIG="+kubeconfig)
	return w
}

// kubectl is built where none is installed: it takes half a minute once.
func (w *world) kubectl(t *testing.T, into string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-modfile=e2e/kind/kind.mod", "-o", filepath.Join(into, "kubectl"), "k8s.io/kubernetes/cmd/kubectl")
	cmd.Dir = repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl: %v\n%s", err, out)
	}
}

// statefulSet is the workload whose pods simulate.md names.
const statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: shop, name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: 500m}}}]}
`

// fixtures are the files that commands name and that are the user's own.
func (w *world) fixtures(t *testing.T) {
	t.Helper()
	archive, err := txtar.ParseFile(repository + "/launcher/convert/testdata/v1alpha5_inline_provider.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"zones.json":            `["us-east-1a", "us-east-1b"]`,
		"workloads/web.yaml":    statefulSet,
		"my-manifests/web.yaml": statefulSet,
	}
	for _, f := range archive.Files {
		if f.Name == "in.yaml" {
			files["karpenter/provisioner.yaml"] = string(f.Data)
		}
	}
	sample, err := os.ReadFile(repository + "/manifests/samples/nodepool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files["my-manifests/nodepool.yaml"] = string(sample)
	crds, err := chart.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		files["bin/charts/crds.yaml"] += string(crd.Data) + "\n---\n"
	}
	for name, text := range files {
		path := filepath.Join(w.folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// up starts the sandbox by the command of buffers.md, which is that of getting-started.md and a feature gate.
func (w *world) up(t *testing.T, kubeconfig string) {
	t.Helper()
	by := map[string]string{}
	for _, c := range commands(t) {
		if strings.HasPrefix(c.text, "bin/slipway-sandbox up") {
			by[c.file] = c.text
		}
	}
	begun, shown := by["docs/getting-started.md"], by["docs/buffers.md"]
	if begun == "" || !strings.HasPrefix(shown, begun+" --feature-gates ") {
		t.Fatalf("buffers.md brings a sandbox up by %q, want the command of getting-started.md, %q, with feature gates", shown, begun)
	}
	cmd := exec.Command("bash", "-c", "exec "+shown+" --kubeconfig "+kubeconfig)
	cmd.Dir, cmd.Env, cmd.Stderr = w.folder, w.environment, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(sandboxTakes, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", shown, err)
		}
	})
	late := time.AfterFunc(sandboxTakes, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var seen bytes.Buffer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Logs are in ") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	t.Fatalf("%s ended:\n%s", shown, &seen)
}

// setUp makes what a reader has who comes to the commands: a pod and a node under the names that are used here, and what an
// earlier Karpenter left.
const setUp = `
kubectl apply -f manifests/samples
kubectl scale deployment inflate --replicas 1
kubectl wait --for=condition=Available deployment/inflate --timeout 4m
kubectl apply -f - <<'YAML'
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: kube-system, name: karpenter, labels: {app.kubernetes.io/name: karpenter}}
spec: {replicas: 0, selector: {matchLabels: {app: karpenter}}, template: {metadata: {labels: {app: karpenter}}, spec: {containers: [{name: c, image: c}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: kube-system, name: cluster-autoscaler}
spec: {replicas: 0, selector: {matchLabels: {app: ca}}, template: {metadata: {labels: {app: ca}}, spec: {containers: [{name: c, image: c}]}}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {namespace: kube-system, name: karpenter-leader-election}
spec: {holderIdentity: "", renewTime: "2020-01-01T00:00:00.000000Z"}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: kube-system, name: aws-auth}
data: {mapRoles: "[]"}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: provisioners.karpenter.sh}
spec:
  group: karpenter.sh
  scope: Cluster
  names: {kind: Provisioner, plural: provisioners}
  versions: [{name: v1alpha5, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: awsnodetemplates.karpenter.k8s.aws}
spec:
  group: karpenter.k8s.aws
  scope: Cluster
  names: {kind: AWSNodeTemplate, plural: awsnodetemplates}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  limits: {cpu: "0"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
YAML
kubectl wait --for condition=established crd/provisioners.karpenter.sh crd/awsnodetemplates.karpenter.k8s.aws
sed 's/\${CLUSTER_NAME}/slipway/' karpenter/provisioner.yaml | kubectl apply -f -
`

var capitals = regexp.MustCompile(`\b(NAMESPACE/NAME|NAME|OLD_MANIFESTS)\b`)

// named is a command with names of objects that exist in place of the words in capitals.
func (w *world) named(t *testing.T, text string) string {
	t.Helper()
	if capitals.MatchString(text) {
		pod := strings.TrimSpace(w.script(t, "pod", "kubectl get pods -l app=inflate -o jsonpath='{.items[0].metadata.name}'"))
		named := pod
		if strings.Contains(text, "explain node ") {
			named = strings.TrimSpace(w.script(t, "node", "kubectl get nodeclaims -o jsonpath='{.items[0].metadata.name}'"))
		}
		text = capitals.ReplaceAllStringFunc(text, func(name string) string {
			return map[string]string{"NAME": named, "NAMESPACE/NAME": "default/" + pod, "OLD_MANIFESTS": "karpenter/ --role nodes"}[name]
		})
	}
	return text
}

// goneTries is how often a command is run again whose object was replaced in between.
const goneTries = 5

// run runs a command as it is shown, but for the names that stand in capitals.
func (w *world) run(t *testing.T, c command) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTakes)
	defer cancel()
	for try := 1; ; try++ {
		text := w.named(t, c.text)
		out, err := w.bash(ctx, text)
		if err == nil {
			return
		}
		if gone := strings.Contains(out, "not found") || strings.Contains(out, "has this name"); text == c.text || !gone || try == goneTries {
			t.Errorf("%s: %q: %v\n%s", c.file, text, err, out)
			return
		}
	}
}

// watch runs a command that never ends by itself until it has printed something.
func (w *world) watch(t *testing.T, c command) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTakes)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec "+c.text)
	cmd.Dir, cmd.Env, cmd.Stderr = w.folder, w.environment, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Errorf("%s: %q prints nothing: %v", c.file, c.text, err)
	}
	cancel()
	var killed *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &killed) || killed.Exited() {
		t.Errorf("%s: %q ended by itself: %v", c.file, c.text, err)
	}
}

// script runs commands of the test's own.
func (w *world) script(t *testing.T, what, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTakes)
	defer cancel()
	out, err := w.bash(ctx, text)
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, out)
	}
	return out
}

func (w *world) bash(ctx context.Context, text string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir, cmd.Env = w.folder, w.environment
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	return string(out), err
}
