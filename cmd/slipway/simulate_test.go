package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// anyPoolYAML is a NodePool that allows any type, and the end of its document.
const anyPoolYAML = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
---
`

const objectsYAML = anyPoolYAML + `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec:
  containers: [{name: main, resources: {requests: {cpu: "1000"}}}]
`

// slipway runs a command line with the given standard input.
func slipway(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// write makes a file of the text and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func marketFlags() []string {
	const dir = "../../plugin/simulate/testdata/market/"
	return []string{"--instance-types", dir + "instance-types.json", "--prices", dir + "prices.json", "--zones", dir + "zones.json"}
}

// keys are those of an object of the answer, sorted.
func keys(t *testing.T, object any) string {
	t.Helper()
	m, ok := object.(map[string]any)
	if !ok {
		t.Fatalf("%v is no object", object)
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), " ")
}

// The fields are those of docs/simulate.md, no more and no fewer, in JSON and in YAML alike.
func TestSimulateFields(t *testing.T) {
	read := map[string]func([]byte, *map[string]any) error{
		"json": func(text []byte, out *map[string]any) error { return json.Unmarshal(text, out) },
		"yaml": func(text []byte, out *map[string]any) error { return yaml.Unmarshal(text, out) },
	}
	for format, parse := range read {
		stdout, _, err := slipway(t, objectsYAML, append(marketFlags(), "simulate", "-f", "-", "-o", format)...)
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := parse([]byte(stdout), &out); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		const fields = "boundSeconds costPerHour existing firstFitPerHour lowerBoundPerHour nodes peakRSSMiB planSeconds problems rounds unschedulable verifySeconds"
		if diff := cmp.Diff(fields, keys(t, out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
		node := out["nodes"].([]any)[0]
		if diff := cmp.Diff("alternatives capacityType cost instanceType name nodePool pods price zone", keys(t, node)); diff != "" {
			t.Errorf("%s: nodes[0] (-want +got):\n%s", format, diff)
		}
		pod := out["unschedulable"].([]any)[0]
		if diff := cmp.Diff("pod reasons", keys(t, pod)); diff != "" {
			t.Errorf("%s: unschedulable[0] (-want +got):\n%s", format, diff)
		}
		if diff := cmp.Diff("code nodePool reason", keys(t, pod.(map[string]any)["reasons"].([]any)[0])); diff != "" {
			t.Errorf("%s: reasons[0] (-want +got):\n%s", format, diff)
		}
	}
}

func TestSimulateTable(t *testing.T) {
	path := write(t, "objects.yaml", objectsYAML)
	stdout, stderr, err := slipway(t, "", append(marketFlags(), "simulate", "-f", filepath.Dir(path))...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 node to launch for 1 pod", "m5.large  spot", "1 pod cannot be placed", "default/huge", "Bill: 0.0322 USD per hour, 23.50 USD per month", "of it: instance 0.0300 + volumes 0.0022"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in:\n%s", want, stdout)
		}
	}
	if stderr != "" {
		t.Errorf("standard error: %s", stderr)
	}
}

// A page is one document, of a plan and of a consolidation.
func TestSimulateHTML(t *testing.T) {
	for want, args := range map[string][]string{
		"<h1>What slipway would launch</h1>":       {"simulate", "-f", "-", "-o", "html"},
		"<h1>What consolidation would save</h1>\n": {"simulate", "-f", "-", "-o", "html", "--consolidate"},
	} {
		stdout, stderr, err := slipway(t, objectsYAML, append(marketFlags(), args...)...)
		if err != nil || stderr != "" || !strings.HasPrefix(stdout, "<!doctype html>") || !strings.HasSuffix(stdout, "</html>\n") || !strings.Contains(stdout, want) {
			t.Errorf("%v: %v, standard error %q; %q is missing in:\n%s", args, err, stderr, want, stdout)
		}
	}
}

func TestExplainFiles(t *testing.T) {
	path := write(t, "objects.yaml", objectsYAML)
	for args, want := range map[string]string{
		"explain -f " + path:                     "default/huge: cannot be placed",
		"explain -f " + path + " pod web":        "Pod default/web: on a new node",
		"explain pod default/web -f " + path:     "NodePool default\n",
		"-n default explain pod huge -f " + path: "Pod default/huge: cannot be placed",
	} {
		stdout, _, err := slipway(t, "", append(strings.Fields(args), marketFlags()...)...)
		if err != nil || !strings.Contains(stdout, want) {
			t.Errorf("%s: %v, %q is missing in:\n%s", args, err, want, stdout)
		}
	}
	if _, _, err := slipway(t, "", "explain", "pod", "nobody", "-f", path); err == nil {
		t.Error("a pod that is not in the input was explained")
	}
}

// What cannot be read is an error, so that the exit code is 1; pods that cannot be placed are not.
func TestSimulateErrors(t *testing.T) {
	objects := write(t, "objects.yaml", objectsYAML)
	for args, want := range map[string]string{
		"simulate":                      "give -f or --from-cluster",
		"simulate -f nowhere.yaml":      "nowhere.yaml",
		"simulate -o xml -f " + objects: "--output xml",
		"simulate -f " + write(t, "a.yaml", "a: [\nb: 1\n"):                               "a.yaml, document 1",
		"simulate -f " + write(t, "b.json", `{"kind": "List", "items": 1}`):               "b.json, object 1: items",
		"simulate --zones nowhere.json -f " + objects:                                     "nowhere.json",
		"simulate --zones " + write(t, "z.json", `["a", 1]`) + " -f " + objects:           "zones:",
		"simulate --zones " + write(t, "z.json", `[]`) + " -f " + objects:                 "zones:",
		"simulate --prices " + write(t, "p.json", `{}`) + " -f " + objects:                "prices:",
		"simulate --prices " + write(t, "p.json", `{"on-demand": []}`) + " -f " + objects: "prices:",
		"simulate --instance-types " + write(t, "i.json", `[]`) + " -f " + objects:        "instance types:",
		"simulate --node-share -0.1 -f " + objects:                                        "--node-share -0.1",
		"simulate --buffers -f " + objects:                                                "--from-cluster without files is expected",
		"explain":                                                                         "explain what?",
	} {
		if stdout, _, err := slipway(t, "", strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q; printed %s", args, err, want, stdout)
		}
	}
}
