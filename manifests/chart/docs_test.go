package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

// Each --set of the documentation is one that the chart takes.
func TestDocumentedValues(t *testing.T) {
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	set := regexp.MustCompile(`--set (\S+)`)
	found := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range set.FindAllStringSubmatch(string(text), -1) {
			found++
			values := minimal()
			// The shell takes the quotes away.
			value := strings.NewReplacer(`"`, "", "'", "", "`", "").Replace(match[1])
			if err := strvals.ParseInto(strings.TrimRight(value, ",."), values); err != nil {
				t.Errorf("%s: --set %s: %v", path, match[1], err)
				continue
			}
			if settings := values["settings"].(map[string]any); settings["clusterName"] == "" {
				settings["clusterName"] = "prod"
			}
			if _, err := (chart.Release{Chart: folder, Name: "slipway", Namespace: "kube-system", Values: values}).Render(); err != nil {
				t.Errorf("%s: --set %s: %v", path, match[1], err)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d values were found", found)
	}
}
