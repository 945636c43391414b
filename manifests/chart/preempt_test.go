package chart_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"
)

// With preferLaunch the chart's profile launches before it preempts; the scheduler refuses the other order. Helm reads numbers as floats: a
// priority must still be a whole number in the arguments.
func TestPreferLaunchOrdersTheProfile(t *testing.T) {
	for _, tc := range []struct {
		name string
		args map[string]any
		want []string
		text string
	}{
		{name: "default", want: []string{"DynamicResources", "DefaultPreemption", "NodeLaunch"}},
		{
			name: "other arguments", args: map[string]any{"spotSharePercent": 30},
			want: []string{"DynamicResources", "DefaultPreemption", "NodeLaunch"}, text: `"spotSharePercent":30`,
		},
		{
			name: "set", args: map[string]any{"preferLaunch": 1000000000.0},
			want: []string{"DynamicResources", "NodeLaunch", "DefaultPreemption"}, text: `"preferLaunch":1000000000`,
		},
		{
			name: "zero", args: map[string]any{"preferLaunch": 0},
			want: []string{"DynamicResources", "NodeLaunch", "DefaultPreemption"}, text: `"preferLaunch":0`,
		},
	} {
		for _, mode := range []string{"beside", "replace"} {
			t.Run(tc.name+" "+mode, func(t *testing.T) {
				values := minimal()
				values["schedulerName"] = "another"
				values["scheduler"] = map[string]any{"mode": mode, "args": tc.args}
				config := render(t, "scheduling", values)["ConfigMap scheduling/slipway"].(*corev1.ConfigMap)
				var scheduler schedulerv1.KubeSchedulerConfiguration
				if err := yaml.UnmarshalStrict([]byte(config.Data["scheduler.yaml"]), &scheduler); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, p := range scheduler.Profiles[0].Plugins.PostFilter.Enabled {
					got = append(got, p.Name)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				if args := string(scheduler.Profiles[0].PluginConfig[0].Args.Raw); !strings.Contains(args, tc.text) {
					t.Errorf("arguments %s, want %s", args, tc.text)
				}
			})
		}
	}
}

// An argument of NodeLaunch wins over the setting that both programs have, also where it is false.
func TestArgumentsWinOverSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings, args map[string]any
		want           string
	}{
		"default":        {want: `"ignoreDRARequests":true`},
		"the setting":    {settings: map[string]any{"ignoreDRARequests": false}, want: `"ignoreDRARequests":false`},
		"the argument":   {args: map[string]any{"ignoreDRARequests": false}, want: `"ignoreDRARequests":false`},
		"both, and true": {settings: map[string]any{"ignoreDRARequests": false}, args: map[string]any{"ignoreDRARequests": true}, want: `"ignoreDRARequests":true`},
	} {
		values := minimal()
		maps.Copy(values["settings"].(map[string]any), tc.settings)
		values["scheduler"] = map[string]any{"args": tc.args}
		config := render(t, "scheduling", values)["ConfigMap scheduling/slipway"].(*corev1.ConfigMap)
		var scheduler schedulerv1.KubeSchedulerConfiguration
		if err := yaml.UnmarshalStrict([]byte(config.Data["scheduler.yaml"]), &scheduler); err != nil {
			t.Fatal(err)
		}
		if args := string(scheduler.Profiles[0].PluginConfig[0].Args.Raw); !strings.Contains(args, tc.want) {
			t.Errorf("%s: arguments %s, want %s", name, args, tc.want)
		}
	}
}
