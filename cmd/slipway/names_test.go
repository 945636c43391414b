package main

import (
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
