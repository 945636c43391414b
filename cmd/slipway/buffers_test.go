package main

import (
	"strings"
	"testing"
)

// Without a record of decisions nothing is said about what was launched, but where it was looked for.
func TestBuffersWithoutARecord(t *testing.T) {
	config := serve(t, cluster(nil))
	for format, want := range map[string]string{"table": "", "json": "[]\n"} {
		out, errs, err := slipway(t, "", "simulate", "--from-cluster", "--buffers", "--slipway-namespace", "own", "-o", format, "--kubeconfig", config)
		if err != nil || out != want || !strings.Contains(errs, "No record of decisions found in namespace own") || !strings.Contains(errs, "--slipway-namespace") {
			t.Errorf("%s: %v\n%s\n%s", format, err, out, errs)
		}
	}
}
