package userdata_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
)

// What the launcher writes for AL2023, Bottlerocket and Windows, custom parts included, makes a machine join with its labels and taints.
func TestTheLaunchersUserDataJoins(t *testing.T) {
	var files []string
	for _, pattern := range []string{"al2023*.golden", "bottlerocket*.golden", "windows*.golden"} {
		found, err := filepath.Glob(filepath.Join("../../../launcher/aws/userdata/testdata", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := userdata.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if got.Cluster != "prod" || !strings.HasPrefix(got.Endpoint, "https://") || got.Labels["karpenter.sh/nodepool"] != "default" {
				t.Errorf("%+v", got)
			}
			taints := map[string]corev1.TaintEffect{}
			for _, taint := range got.Taints {
				taints[taint.Key] = taint.Effect
			}
			if taints["slipway.dev/starting"] != corev1.TaintEffectNoSchedule || taints["dedicated"] != corev1.TaintEffectNoExecute {
				t.Errorf("taints %v", got.Taints)
			}
			scripts, err := userdata.Scripts(string(text))
			if _, ok := scripts["slipway-prefetch.sh"]; err != nil || ok != strings.Contains(file, "prefetch") {
				t.Errorf("%d scripts with a name, %v", len(scripts), err)
			}
		})
	}
}
