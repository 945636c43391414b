package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/slipway-k8s/slipway/plugin"
)

// The samples go through the scheduler's own codec and validation, strictly, and their args through the plugin's.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("../../../manifests/scheduler/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("samples %v, error %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			obj, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			cfg, ok := obj.(*config.KubeSchedulerConfiguration)
			if !ok {
				t.Fatalf("it is a %T", obj)
			}
			if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
				t.Error(err)
			}
			if cfg.LeaderElection.ResourceName == "kube-scheduler" || !cfg.LeaderElection.LeaderElect {
				t.Errorf("leader election %+v: the lease must be slipway's own", cfg.LeaderElection)
			}
			if cfg.ClientConnection.QPS <= 100 {
				t.Errorf("client QPS %v is too little for waves", cfg.ClientConnection.QPS)
			}
			for _, p := range cfg.Profiles {
				var post []string
				for _, e := range p.Plugins.PostFilter.Enabled {
					post = append(post, e.Name)
				}
				if got := strings.Join(post, " "); got != "DynamicResources DefaultPreemption NodeLaunch" {
					t.Errorf("profile %s: PostFilter %s", p.SchedulerName, got)
				}
				checkArgs(t, p)
			}
		})
	}
}

func checkArgs(t *testing.T, p config.KubeSchedulerProfile) {
	t.Helper()
	found := false
	for _, pc := range p.PluginConfig {
		if pc.Name != plugin.NodeLaunchName {
			continue
		}
		found = true
		if _, err := plugin.DecodeArgs(pc.Args); err != nil {
			t.Errorf("profile %s: %v", p.SchedulerName, err)
		}
	}
	if !found {
		t.Errorf("profile %s has no args for %s", p.SchedulerName, plugin.NodeLaunchName)
	}
}

// The command takes kube-scheduler's flags, and no arguments.
func TestCommand(t *testing.T) {
	cmd := NewCommand()
	for _, flag := range []string{"config", "kubeconfig", "leader-elect", "emulated-version", "version", "v"} {
		if cmd.Flags().Lookup(flag) == nil {
			t.Errorf("flag --%s is missing", flag)
		}
	}
	if err := cmd.Args(cmd, []string{"x"}); err == nil {
		t.Error("an argument was taken")
	}
	if _, err := plugin.New(plugin.Options{Registerer: prometheus.NewRegistry()}); err != nil {
		t.Error(err)
	}
}

// The scheduler reads its container's memory as the launcher does.
func TestMemoryLimitOfTheContainer(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "1073741824": 1 << 30, "1Gi": -1, "-5": -1} {
		t.Setenv("MEMORY_LIMIT", text)
		got, err := memoryLimit()
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
