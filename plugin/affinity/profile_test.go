package affinity_test

import (
	"slices"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/slipway-k8s/slipway/plugin/affinity"
)

// A profile with the plugin, as the documentation has it, becomes one with InterPodAffinity once, of the same weight; the profile itself stays.
func TestStock(t *testing.T) {
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled:
      - name: InterPodAffinity
      enabled:
      - name: IncrementalPodAffinity
        weight: 2
`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	given := obj.(*config.KubeSchedulerConfiguration).Profiles
	count := func(profiles []config.KubeSchedulerProfile, name string) (n int) {
		for _, e := range profiles[0].Plugins.MultiPoint.Enabled {
			if e.Name == name && e.Weight == 2 {
				n++
			}
		}
		return n
	}
	got := affinity.Stock(given)
	if count(got, names.InterPodAffinity) != 1 || count(got, affinity.Name) != 0 || len(got[0].Plugins.MultiPoint.Disabled) != 0 {
		t.Errorf("got %+v", got[0].Plugins.MultiPoint)
	}
	if !slices.ContainsFunc(got[0].PluginConfig, func(c config.PluginConfig) bool { return c.Name == names.InterPodAffinity && c.Args != nil }) {
		t.Errorf("InterPodAffinity has no args, and does not start without: %+v", got[0].PluginConfig)
	}
	if count(given, names.InterPodAffinity) != 0 || count(given, affinity.Name) != 1 {
		t.Errorf("the profile itself is %+v", given[0].Plugins.MultiPoint)
	}
	// A profile without the plugin has nothing to replace.
	if again := affinity.Stock(got); count(again, names.InterPodAffinity) != 1 {
		t.Errorf("again: got %+v", again[0].Plugins.MultiPoint)
	}
}
