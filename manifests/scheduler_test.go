package manifests_test

import (
	"strings"
	"testing"

	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/manifests"
)

func TestSchedulerConfig(t *testing.T) {
	for _, name := range []string{"scheduler/replace.yaml", "scheduler/beside.yaml"} {
		data, err := manifests.SchedulerConfig(name, "/the/kubeconfig", map[string]any{"socket": "/the/socket", "hooks": false})
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			ClientConnection struct {
				Kubeconfig string  `json:"kubeconfig"`
				QPS        float64 `json:"qps"`
			} `json:"clientConnection"`
			Profiles []struct {
				PluginConfig []struct {
					Name string         `json:"name"`
					Args map[string]any `json:"args"`
				} `json:"pluginConfig"`
			} `json:"profiles"`
		}
		if err := yaml.Unmarshal(data, &config); err != nil {
			t.Fatal(err)
		}
		if config.ClientConnection.Kubeconfig != "/the/kubeconfig" || config.ClientConnection.QPS == 0 {
			t.Errorf("%s: connection %+v", name, config.ClientConnection)
		}
		args := config.Profiles[0].PluginConfig[0].Args
		if args["socket"] != "/the/socket" || args["hooks"] != false {
			t.Errorf("%s: args %v", name, args)
		}
	}
	if _, err := manifests.SchedulerConfig("samples/inflate.yaml", "", nil); err == nil || !strings.Contains(err.Error(), "inflate") {
		t.Errorf("a Deployment is a configuration: %v", err)
	}
}

// Whatever is set up from the samples launches before it preempts where preferLaunch is among the arguments.
func TestSchedulerConfigLaunchesFirst(t *testing.T) {
	for _, name := range []string{"scheduler/replace.yaml", "scheduler/beside.yaml"} {
		for want, args := range map[string]map[string]any{
			"DynamicResources DefaultPreemption NodeLaunch": nil,
			"DynamicResources NodeLaunch DefaultPreemption": {"preferLaunch": 100},
		} {
			data, err := manifests.SchedulerConfig(name, "/the/kubeconfig", args)
			if err != nil {
				t.Fatal(err)
			}
			var config schedulerv1.KubeSchedulerConfiguration
			if err := yaml.UnmarshalStrict(data, &config); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range config.Profiles[0].Plugins.PostFilter.Enabled {
				got = append(got, p.Name)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s with %v: %v, want %s", name, args, got, want)
			}
		}
	}
}
