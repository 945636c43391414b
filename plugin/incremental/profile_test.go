package incremental_test

import (
	"slices"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/slipway-k8s/slipway/plugin/incremental"
	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
	"github.com/slipway-k8s/slipway/plugin/incremental/spread"
)

// A profile with the plugins, as the documentation has it, becomes one with Kubernetes' once, of the same weight; the profile itself stays.
func TestStock(t *testing.T) {
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled:
      - name: InterPodAffinity
      - name: PodTopologySpread
      enabled:
      - name: IncrementalPodAffinity
        weight: 2
      - name: IncrementalTopologySpread
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
	got := incremental.Stock(given)
	for ours, theirs := range map[string]string{affinity.Name: names.InterPodAffinity, spread.Name: names.PodTopologySpread} {
		if count(got, theirs) != 1 || count(got, ours) != 0 || len(got[0].Plugins.MultiPoint.Disabled) != 0 {
			t.Errorf("got %+v", got[0].Plugins.MultiPoint)
		}
		if !slices.ContainsFunc(got[0].PluginConfig, func(c config.PluginConfig) bool { return c.Name == theirs && c.Args != nil }) {
			t.Errorf("%s has no args, and does not start without: %+v", theirs, got[0].PluginConfig)
		}
		if count(given, theirs) != 0 || count(given, ours) != 1 {
			t.Errorf("the profile itself is %+v", given[0].Plugins.MultiPoint)
		}
		// A profile without the plugins has nothing to replace.
		if again := incremental.Stock(got); count(again, theirs) != 1 {
			t.Errorf("again: got %+v", again[0].Plugins.MultiPoint)
		}
	}
}

// Args that would have no effect are refused with the names of both plugins; those that change nothing are not.
func TestArgsWithoutEffectAreRefused(t *testing.T) {
	read := func(plugins, args string) error {
		obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: own\n"+plugins+args), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return incremental.Validate(obj.(*config.KubeSchedulerConfiguration).Profiles)
	}
	const ours = "  plugins: {multiPoint: {disabled: [{name: InterPodAffinity}, {name: PodTopologySpread}], enabled: [{name: IncrementalPodAffinity}, {name: IncrementalTopologySpread}]}}\n"
	const list, system = "  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]", "  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: System}}]"
	for _, ok := range []error{read("", ""), read(ours, ""), read("", list), read(ours, system)} {
		if ok != nil {
			t.Error(ok)
		}
	}
	err := read(ours, list)
	if want := "profile own: the args of PodTopologySpread have no effect beside IncrementalTopologySpread: expected none, or IncrementalTopologySpread disabled and PodTopologySpread enabled"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
