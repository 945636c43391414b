package catalog_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A normal key stands for itself and for each of its aliases.
func TestAliasesHaveTheirNormalKey(t *testing.T) {
	for key, n := range map[string]int{
		corev1.LabelTopologyZone: 2, corev1.LabelTopologyRegion: 1, corev1.LabelArchStable: 1, corev1.LabelOSStable: 1,
		corev1.LabelInstanceTypeStable: 1, corev1.LabelHostname: 0, "example.com/rack": 0,
	} {
		aliases := catalog.Aliases(key)
		if len(aliases) != n {
			t.Errorf("%s has the aliases %v, want %d", key, aliases, n)
		}
		for _, k := range append(aliases, key) {
			if got := catalog.NormalKey(k); got != key {
				t.Errorf("the normal key of %s is %s, want %s", k, got, key)
			}
		}
	}
}
