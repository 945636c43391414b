package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/objects"
)

// patience is how long anything may take: far above what it takes on a busy machine.
const patience = 4 * time.Minute

// world is a sandbox, and the page of `slipway ui` on it.
type world struct {
	t          *testing.T
	bin        string
	kubeconfig string
	// api is the URL of the launcher.
	api    string
	client client.Client
	page   *browser
}

// newWorld starts a sandbox with light machines, and the page.
func newWorld(t *testing.T) *world {
	t.Helper()
	bin, err := filepath.Abs(os.Getenv("SLIPWAY_BIN_DIR"))
	if err != nil || os.Getenv("SLIPWAY_BIN_DIR") == "" {
		t.Fatal("SLIPWAY_BIN_DIR is not set: make ui-browser")
	}
	w := &world{t: t, bin: bin, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	w.api = w.runs("slipway-sandbox", regexp.MustCompile(`--api (https://\S+)`), "Logs are in ",
		"--sandbox", "page", "up", "--machines", "light", "--managed-nodes", "0", "--addons=false", "--speed", "40", "--kubeconfig", w.kubeconfig)
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if w.client, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	url := w.runs("slipway", regexp.MustCompile(`(http://127\.0\.0\.1:\d+/ui/)`), "http://", "ui", "--kubeconfig", w.kubeconfig, "--api", w.api)
	w.page = started(t, url)
	return w
}

// ready waits for so many nodes that are ready. The API is asked, not the page: a browser that shows what changes takes the time of what it looks at.
func (w *world) ready(nodes int) {
	w.t.Helper()
	got := 0
	for deadline := time.Now().Add(2 * patience); got < nodes; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d nodes are ready, want %d", got, nodes)
		}
		var list struct{ Nodes []struct{ State string } }
		if err := json.Unmarshal(w.asked("/api/v1/nodes"), &list); err != nil {
			w.t.Fatal(err)
		}
		got = 0
		for _, n := range list.Nodes {
			if n.State == "ready" {
				got++
			}
		}
	}
}

// asked returns what the API answers to a path.
func (w *world) asked(path string) []byte {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, strings.TrimSuffix(w.page.url, "/ui/")+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s %v", path, answer.Status, err)
	}
	return text
}

// runs starts a command that goes on until the test ends, and waits for a line. It returns what the expression finds until then.
func (w *world) runs(name string, find *regexp.Regexp, until string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command(filepath.Join(w.bin, name), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // slipway ui ends by the signal.
	})
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var seen bytes.Buffer
	lines, found := bufio.NewScanner(out), ""
	for lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		if m := find.FindStringSubmatch(lines.Text()); m != nil {
			found = m[1]
		}
		if strings.Contains(lines.Text(), until) && found != "" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return found
		}
	}
	w.t.Fatalf("%s %v ended:\n%s", name, args, &seen)
	return ""
}

// aws does something to the sandbox's AWS.
func (w *world) aws(args ...string) string {
	w.t.Helper()
	return w.sandbox(append([]string{"aws"}, args...)...)
}

// sandbox runs a command of slipway-sandbox on the sandbox, and returns what it prints.
func (w *world) sandbox(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(w.bin, "slipway-sandbox"), append([]string{"--sandbox", "page"}, args...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("slipway-sandbox %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// slipway runs a command of the user's command line on the sandbox, and returns what it prints.
func (w *world) slipway(args ...string) []byte {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(w.bin, "slipway"), append([]string{"--kubeconfig", w.kubeconfig}, args...)...).Output()
	if err != nil {
		w.t.Fatalf("slipway %v: %v", args, err)
	}
	return out
}

// apply creates the objects of YAML documents.
func (w *world) apply(text string) {
	w.t.Helper()
	all, err := objects.Read(strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range all {
		if err := w.client.Create(w.t.Context(), o); err != nil {
			w.t.Fatalf("creating %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// file returns a file of testdata.
func (w *world) file(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// first returns the name of the first object of a kind with the label app; of any, if that is empty.
func (w *world) first(kind schema.GroupVersionKind, app string) string {
	w.t.Helper()
	options := []client.ListOption{}
	if app != "" {
		options = append(options, client.MatchingLabels{"app": app})
	}
	items := w.list(kind, options...)
	if len(items) == 0 {
		w.t.Fatalf("no objects of %s with app=%s", kind.Kind, app)
	}
	return items[0].GetName()
}

// list lists objects of a kind.
func (w *world) list(kind schema.GroupVersionKind, options ...client.ListOption) []unstructured.Unstructured {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := w.client.List(w.t.Context(), list, options...); err != nil {
		w.t.Fatalf("listing %s: %v", kind.Kind, err)
	}
	return list.Items
}

// pulled is the name of a pod with the prefix whose node did not have its image: the first of them on a node.
func (w *world) pulled(prefix string) string {
	w.t.Helper()
	pulls := w.list(schema.GroupVersionKind{Version: "v1", Kind: "EventList"}, client.InNamespace("shop"), client.MatchingFields{"reason": "Pulling"})
	for _, e := range pulls {
		if name, _, _ := unstructured.NestedString(e.Object, "involvedObject", "name"); strings.HasPrefix(name, prefix) {
			return name
		}
	}
	w.t.Fatalf("none of %d Events of pulled images is about a pod %s*", len(pulls), prefix)
	return ""
}
