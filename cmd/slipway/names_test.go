package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A pod is named as kubectl names it, or by the command's own words.
func TestExplainTakesTypeAndName(t *testing.T) {
	for _, arg := range [][]string{{"pod/web"}, {"pods/default/web"}, {"pod", "default/web"}} {
		out, _, err := slipway(t, objectsYAML, append([]string{"explain", "-f", "-"}, arg...)...)
		if err != nil || !strings.Contains(out, "Pod default/web: on a new node") {
			t.Errorf("%v: %v\n%s", arg, err, out)
		}
	}
	if _, _, err := slipway(t, objectsYAML, "explain", "-f", "-", "web"); err == nil || !strings.Contains(err.Error(), "give pod NAMESPACE/NAME") {
		t.Errorf("a name alone: %v", err)
	}
}

// Files beside --aws would be ignored: they are refused.
func TestFilesBesideAWS(t *testing.T) {
	zones := write(t, "zones.json", `["us-east-1a"]`)
	if _, _, err := slipway(t, objectsYAML, "simulate", "-f", "-", "--aws", "--zones", zones); err == nil || !strings.Contains(err.Error(), "--aws") {
		t.Errorf("--aws beside --zones: %v", err)
	}
}

// A kubeconfig that is not there, or that names no cluster, is named in the error.
func TestKubeconfigThatIsNotThere(t *testing.T) {
	missing, empty := filepath.Join(t.TempDir(), "missing"), write(t, "config", "apiVersion: v1\nkind: Config\n")
	for file, want := range map[string]string{missing: missing + ": there is no such file", empty: empty + ": it names no cluster"} {
		t.Setenv("KUBECONFIG", file)
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		if _, _, err := slipway(t, "", "status"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

// Where all that is pending was left out, standard output does not say that there is nothing to do.
func TestNothingPendingBesideProblems(t *testing.T) {
	const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 20, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, resources: {requests: {cpu: 700mm}}}]}}}
`
	out, errs, err := slipway(t, deployment, "simulate", "-f", "-")
	if err == nil || strings.Contains(out, "nothing to do") || !strings.Contains(out, "1 problem") || !strings.Contains(errs, "problem: ") {
		t.Errorf("%v:\n%s\n%s", err, out, errs)
	}
}
