package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// strangersAWS runs an AWS as a stand-in for it is when it has just been started: nobody has set up anything, and there is no
// EKS, no Price List API, and no public parameter that names an AMI.
func strangersAWS(t *testing.T) *aws.Server {
	t.Helper()
	server, err := aws.New(aws.Config{ClusterName: "nobodys", Clock: clock.New(speed), Seed: 2, Bare: true, Lacks: []string{"eks", "pricing"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if broken := server.Violations(); len(broken) > 0 {
			t.Errorf("not as AWS's models say: %q", broken)
		}
	})
	return server
}

// onAnotherAWS starts a second sandbox, as a user does, which stands on that AWS; its samples are in the folder.
func onAnotherAWS(t *testing.T, server *aws.Server) (c *cluster, samples string) {
	t.Helper()
	kubeconfig, name := filepath.Join(t.TempDir(), "kubeconfig"), fmt.Sprintf("foreign-%d", os.Getpid())
	cmd := exec.Command(filepath.Join(testbed.BinDir(".."), "slipway-sandbox"), "up", "--sandbox", name, "--kubeconfig", kubeconfig,
		"--aws-endpoint", server.URL(), "--speed", strconv.Itoa(speed), "--addons=false")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	go func() {
		defer close(ready)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			t.Log(lines.Text())
			if folder, ok := strings.CutPrefix(lines.Text(), "Logs are in "); ok {
				ready <- folder
			}
		}
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		// Its output is read to the end before it is waited for.
		for range ready {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the second sandbox: %v", err)
		}
	})
	folder, ok := <-ready
	if !ok {
		t.Fatal("the second sandbox does not come up")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c = &cluster{}
	if c.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	if c.recorder, err = observe.New(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	// The watches end first: kube-apiserver waits for them.
	t.Cleanup(cancel)
	if err := c.recorder.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return c, filepath.Join(folder, "samples")
}

// samples reads the manifests of a folder; empty nodes go sooner than the sample says.
func samples(t *testing.T, folder string) []client.Object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	var out []client.Object
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch object.GetKind() {
			case "NodePool":
				err = unstructured.SetNestedField(object.Object, "1s", "spec", "disruption", "consolidateAfter")
			case "Deployment":
				object.SetNamespace("default")
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, object)
		}
	}
	return out
}

// On an AWS that is not its own the sandbox finds or makes what it needs, and the sample manifests launch, run and end nodes.
func TestOnAnotherAWSAlone(t *testing.T) {
	server := strangersAWS(t)
	other, folder := onAnotherAWS(t, server)
	w := &world{t: t, cluster: other, name: "default"}
	w.create(samples(t, folder)...)
	inflate := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "inflate"}}
	w.scale(inflate, 3)
	w.awaitRunning(3)
	live := func() int {
		n := 0
		for _, i := range server.Instances() {
			if i.Live() {
				n++
			}
		}
		return n
	}
	if n := live(); n == 0 {
		t.Fatal("pods run, and the other AWS has no instance")
	}
	w.scale(inflate, 0)
	w.await(t, "no node", func() bool {
		return !slices.ContainsFunc(w.recorder.Nodes(), func(n observe.Node) bool { return !n.Deleted.Seen() })
	})
	if n := live(); n > 0 {
		t.Errorf("%d instances run on without nodes", n)
	}
}
