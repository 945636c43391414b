package nodematch_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// A normal key stands for itself and for each of its aliases.
func TestAliasesHaveTheirNormalKey(t *testing.T) {
	for key, n := range map[string]int{
		corev1.LabelTopologyZone: 2, corev1.LabelTopologyRegion: 1, corev1.LabelArchStable: 1, corev1.LabelOSStable: 1,
		corev1.LabelInstanceTypeStable: 1, corev1.LabelHostname: 0, "example.com/rack": 0,
	} {
		aliases := nodematch.Aliases(key)
		if len(aliases) != n {
			t.Errorf("%s has the aliases %v, want %d", key, aliases, n)
		}
		for _, k := range append(aliases, key) {
			if got := nodematch.NormalKey(k); got != key {
				t.Errorf("the normal key of %s is %s, want %s", k, got, key)
			}
		}
	}
}

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
