package userdata

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// bootstrapArgs parses a shell script as bash does and returns the arguments of /etc/eks/bootstrap.sh.
func bootstrapArgs(t *testing.T, script string) []string {
	t.Helper()
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "user-data")
	if err != nil {
		t.Fatalf("bash cannot read it: %v\n%s", err, script)
	}
	var args []string
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		words, err := expand.Fields(&expand.Config{NoUnset: true}, call.Args...)
		if err != nil {
			t.Fatal(err)
		}
		if words[0] == "/etc/eks/bootstrap.sh" {
			args = words[1:]
		}
		return true
	})
	return args
}

// The words that bootstrap.sh gets are those that were meant, whatever stands in them.
func TestBootstrapScriptIsShell(t *testing.T) {
	in := input(catalog.FamilyAL2, kubelet, raid, custom("#!/bin/bash\necho hello\n"))
	in.Cluster.Endpoint = `https://it's "$HOME" \ $(reboot)`
	in.Labels["quoted"] = `it's`
	text, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	scripts := parts(t, text)["text/x-shellscript"]
	if len(scripts) != 2 || !strings.Contains(scripts[0], "echo hello") {
		t.Fatalf("scripts %q: the user's comes first", scripts)
	}
	want := []string{
		"prod", "--apiserver-endpoint", in.Cluster.Endpoint, "--b64-cluster-ca", "Y2VydGlmaWNhdGU=",
		"--dns-cluster-ip", "10.100.0.10", "--use-max-pods", "false", "--kubelet-extra-args",
		strings.Join([]string{
			"--node-labels=karpenter.sh/capacity-type=spot,karpenter.sh/nodepool=default,node.kubernetes.io/exclude-disruption=true,quoted=it's,team=a",
			"--register-with-taints=slipway.dev/starting:NoSchedule,dedicated=batch:NoExecute", "--max-pods=29", "--pods-per-core=5", "--registry-burst=110",
			"--system-reserved=cpu=100m,memory=100Mi", "--kube-reserved=cpu=200m", "--eviction-hard=memory.available<5%",
			"--eviction-soft=memory.available<10%", "--eviction-soft-grace-period=memory.available=1m0s",
			"--eviction-max-pod-grace-period=90", "--image-gc-high-threshold=80", "--image-gc-low-threshold=50", "--cpu-cfs-quota=true",
		}, " "),
		"--local-disks", "raid0",
	}
	if diff := cmp.Diff(want, bootstrapArgs(t, scripts[1])); diff != "" {
		t.Errorf("bootstrap.sh is called with other words (-want +got):\n%s", diff)
	}
	if before, _, _ := strings.Cut(scripts[1], bootstrapPath); !strings.Contains(before, "tee /var/log/user-data.log") {
		t.Errorf("what bootstrap.sh prints is not in /var/log/user-data.log:\n%s", scripts[1])
	}
}

// Without settings the AMI's defaults apply: no argument overrides them, except the limit of image pulls.
func TestBootstrapScriptSaysNoMoreThanAsked(t *testing.T) {
	in := input(catalog.FamilyAL2)
	in.MaxPods, in.Labels, in.Taints = 0, nil, nil
	text, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"prod", "--apiserver-endpoint", in.Cluster.Endpoint, "--b64-cluster-ca", in.Cluster.CertificateAuthority, "--kubelet-extra-args", "--registry-burst=110"}
	if diff := cmp.Diff(want, bootstrapArgs(t, parts(t, text)["text/x-shellscript"][0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every golden file is what its reader takes: MIME with shell and YAML parts, or TOML.
func TestGoldenFilesAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch name := filepath.Base(path); {
		case strings.HasPrefix(name, "custom"), strings.HasPrefix(name, "windows"): // The machines' reader of PowerShell has a test of its own.
		case strings.HasPrefix(name, "bottlerocket"):
			if err := toml.Unmarshal(text, &map[string]any{}); err != nil {
				t.Errorf("%s: not TOML: %v", name, err)
			}
		default:
			for kind, bodies := range parts(t, string(text)) {
				for _, body := range bodies {
					checkPart(t, name, kind, body)
				}
			}
		}
	}
}

func checkPart(t *testing.T, name, kind, body string) {
	t.Helper()
	switch kind {
	case nodeConfigType:
		var config nodeConfig
		if err := yaml.Unmarshal([]byte(body), &config); err != nil || config.Kind != "NodeConfig" {
			t.Errorf("%s: not a NodeConfig: %v", name, err)
		}
	case "text/x-shellscript":
		if _, err := syntax.NewParser().Parse(strings.NewReader(body), name); err != nil {
			t.Errorf("%s: not a shell script: %v", name, err)
		}
	default:
		t.Errorf("%s: a part of type %s", name, kind)
	}
}
