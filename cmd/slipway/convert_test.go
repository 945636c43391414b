package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const oldClass = `apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiFamily: AL2023
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
`

func TestConvertReadsStandardInput(t *testing.T) {
	stdout, stderr, err := slipway(t, oldClass, "convert", "-f", "-", "--role", "nodes")
	if err != nil || !strings.Contains(stdout, "apiVersion: karpenter.k8s.aws/v1\n") || !strings.Contains(stdout, "role: nodes") {
		t.Errorf("%v\n%s", err, stdout)
	}
	if !strings.Contains(stderr, "assumed: EC2NodeClass default: spec.amiSelectorTerms: al2023@latest") {
		t.Errorf("findings:\n%s", stderr)
	}
}

func TestConvertReadsDirectories(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"b.yml": oldClass, "a.json": `{"kind": "ConfigMap", "apiVersion": "v1"}`, "notes.txt": ":-[", "c/x.yaml": ""} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _, err := slipway(t, "", "convert", "-f", folder, "--instance-profile", "nodes", "--ami-alias", "al2023@v20260101")
	want := []string{`{"kind": "ConfigMap", "apiVersion": "v1"}`, "---", "alias: al2023@v20260101", "instanceProfile: nodes"}
	for _, part := range want {
		_, rest, found := strings.Cut(stdout, part)
		if !found {
			t.Errorf("%q is missing, or in another order: %v\n%s", part, err, stdout)
		}
		stdout = rest
	}
	if _, _, err := slipway(t, "", "convert", "-f", filepath.Join(folder, "missing.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, _, err := slipway(t, "", "convert", "-f", t.TempDir()); err == nil {
		t.Error("a directory without manifests")
	}
	if _, _, err := slipway(t, "", "convert"); err == nil {
		t.Error("no input at all")
	}
}

func TestConvertFailsWhenSomethingIsMissing(t *testing.T) {
	stdout, stderr, err := slipway(t, oldClass, "convert", "-f", "-")
	if !errors.Is(err, errIncomplete) || !strings.Contains(stderr, "missing: EC2NodeClass default: spec.role: ") {
		t.Errorf("%v\n%s", err, stderr)
	}
	if !strings.Contains(stdout, "kind: EC2NodeClass") {
		t.Errorf("what can be converted is not written:\n%s", stdout)
	}
}
