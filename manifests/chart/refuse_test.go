package chart_test

import (
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/manifests/chart"
)

// Values that do not fit together are refused with the name of the value to change.
func TestTemplatesRefuse(t *testing.T) {
	for name, tc := range map[string]struct {
		values map[string]any
		want   string
	}{
		"a policy that sends pods to no profile": {
			map[string]any{"scheduler": map[string]any{"mode": "replace"}, "schedulerName": "another", "admission": map[string]any{"enabled": true}}, "admission.enabled",
		},
		"a certificate of plain HTTP": {map[string]any{"controller": map[string]any{"metrics": map[string]any{"certificateSecret": "a"}}}, "controller.metrics.authenticated"},
	} {
		tc.values["settings"] = map[string]any{"clusterName": "prod"}
		_, err := chart.Release{Chart: folder, Name: "slipway", Namespace: "kube-system", Values: tc.values}.Render()
		if err == nil || !strings.Contains(err.Error(), tc.want+": ") {
			t.Errorf("%s: error %v, want one about %s", name, err, tc.want)
		}
	}
}
