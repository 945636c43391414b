package nodematch_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// A node has its name as two labels, unless its hostname is another one, and no deprecated key.
func TestNodeLabels(t *testing.T) {
	given := map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelFailureDomainBetaZone: "a"}
	got := nodematch.NodeLabels("n", given)
	if want := map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelHostname: "n", nodematch.FieldName: "n"}; !maps.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
	given[corev1.LabelHostname] = "h"
	if got := nodematch.NodeLabels("n", given); got[corev1.LabelHostname] != "h" || got[nodematch.FieldName] != "n" {
		t.Errorf("labels %v, want hostname h and name n", got)
	}
}
