package conventions_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// ban forbids that packages below from depend, even indirectly, on packages below to.
type ban struct {
	from, to string
	// except are packages below to that are allowed, or packages below from that may.
	except []string
	why    string
}

func bans() []ban {
	const (
		sdk  = "github.com/aws/aws-sdk-go-v2/service/"
		ours = module + "/"
	)
	// Karpenter's API types carry EC2's own types, which carry the client's package.
	types := []string{sdk + "ec2", sdk + "internal"}
	return []ban{
		{ours + "plugin", ours + "launcher", []string{ours + "launcher/api", ours + "launcher/catalog"}, "the plugin knows the launcher by its contract alone"},
		{ours + "internal/disruption", ours + "launcher", []string{ours + "launcher/catalog"}, "both sides share the rules of disruption"},
		{ours + "internal/disruption", ours + "plugin", nil, "both sides share the rules of disruption"},
		{ours + "internal/disruption", ours + "e2e", nil, "nothing that is shipped stands on the sandbox"},
		{ours + "internal/buffersize", ours, []string{ours + "internal/buffersize", ours + "internal/window"}, "both sides share how large a CapacityBuffer is"},
		{ours + "internal/window", ours, []string{ours + "internal/window"}, "both sides share what holds when"},
		{ours + "plugin", sdk, types, "the scheduler calls no AWS API"},
		{ours + "launcher", ours + "plugin", nil, "the launcher acts, it does not plan"},
		{ours + "launcher", sdk, append([]string{ours + "launcher/aws"}, types...), "AWS is called from launcher/aws alone"},
		{ours + "launcher", ours + "e2e", nil, "nothing that is shipped stands on the sandbox"},
		{ours + "plugin", ours + "e2e", nil, "nothing that is shipped stands on the sandbox"},
		{ours + "launcher/api", ours, []string{ours + "launcher/api"}, "the contract depends on neither side"},
		{ours + "plugin/plan", "k8s.io/client-go", nil, "planning is a pure function"},
		{ours + "plugin/plan", "k8s.io/klog", []string{"k8s.io/klog/v2"}, "planning is a pure function"},
		{ours + "plugin/plan", "k8s.io/kubernetes/", nil, "planning is a pure function"},
		{ours + "plugin/plan", "google.golang.org/grpc", nil, "planning is a pure function"},
		{ours + "plugin/plan/binpack", "k8s.io/", nil, "bin packing knows nothing of Kubernetes"},
		{ours + "plugin/plan/binpack", ours + "launcher", nil, "bin packing knows nothing of Kubernetes"},
		{ours + "plugin/plan/relations", ours + "plugin/plan/binpack", nil, "relations between pods know nothing of nodes to buy and their prices"},
		{ours + "plugin/batch", "k8s.io/client-go", nil, "batching is a pure function"},
		{ours + "plugin/batch", "k8s.io/kubernetes/", nil, "batching is a pure function"},
	}
}

func TestImports(t *testing.T) {
	deps := dependencies(t)
	for _, b := range bans() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(deps)), func(p string) bool { return below(p, b.from) }) {
			t.Errorf("no package below %s: the rule guards nothing", b.from)
		}
		for pkg, all := range deps {
			if !below(pkg, b.from) || slices.ContainsFunc(b.except, func(e string) bool { return below(pkg, e) }) {
				continue
			}
			for _, dep := range all {
				allowed := slices.ContainsFunc(b.except, func(e string) bool { return below(dep, e) })
				if below(dep, b.to) && !allowed {
					t.Errorf("%s depends on %s: %s", pkg, dep, b.why)
				}
			}
		}
	}
}

// Calls of AWS name a client; the types that Karpenter's API packages bring along do not. So direct imports of any
// client's package are banned outright.
func TestClientsAreImportedInOnePlace(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		if strings.HasPrefix(f.path, "launcher/aws/") || strings.HasPrefix(f.path, "e2e/") || f.isTest() {
			continue
		}
		for _, imp := range f.file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if strings.HasPrefix(path, "github.com/aws/aws-sdk-go-v2/") && !strings.HasSuffix(path, "/types") {
				t.Errorf("%s imports %s: AWS is called from launcher/aws alone", f.path, path)
			}
		}
	}
}

// Of Karpenter we take the API; its controllers and its scheduler are what slipway replaces.
func TestOnlyKarpentersAPI(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		for _, imp := range f.file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			karpenter := below(path, "sigs.k8s.io/karpenter") || below(path, "github.com/aws/karpenter-provider-aws")
			if karpenter && !strings.Contains(path, "/pkg/apis") {
				t.Errorf("%s imports %s", f.path, path)
			}
		}
	}
}

// Only the sandbox's command and tests stand on e2e.
func TestNobodyStandsOnE2E(t *testing.T) {
	_, files := tree(t)
	for _, f := range files {
		if strings.HasPrefix(f.path, "e2e/") || strings.HasPrefix(f.path, "cmd/slipway-sandbox/") || f.isTest() {
			continue
		}
		for _, imp := range f.file.Imports {
			if strings.HasPrefix(strings.Trim(imp.Path.Value, `"`), module+"/e2e") {
				t.Errorf("%s imports %s", f.path, imp.Path.Value)
			}
		}
	}
}

func below(pkg, root string) bool {
	return pkg == root || strings.HasPrefix(pkg, strings.TrimSuffix(root, "/")+"/")
}

// dependencies lists each package of the module with all that it depends on.
func dependencies(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Deps", "./...")
	cmd.Dir = moduleRoot(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	out := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(stdout)); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out[p.ImportPath] = p.Deps
	}
}
