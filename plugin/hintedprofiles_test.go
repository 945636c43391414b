package plugin

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// byAnnotation is a plugin of others that scores nodes.
type byAnnotation struct{}

func (byAnnotation) Name() string { return "ByAnnotation" }

func (byAnnotation) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

func (byAnnotation) ScoreExtensions() fwk.ScoreExtensions { return nil }

// Equal pods of a profile are tried on few nodes only if what its scores depend on is known.
func TestHintedProfiles(t *testing.T) {
	schedulermetrics.Register()
	registry := frameworkplugins.NewInTreeRegistry()
	if err := registry.Register("ByAnnotation", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return byAnnotation{}, nil }); err != nil {
		t.Fatal(err)
	}
	enabled := func(name string) config.PluginSet {
		return config.PluginSet{Enabled: []config.Plugin{{Name: name, Weight: 1}}}
	}
	over := func(key string) []config.PluginConfig {
		return []config.PluginConfig{{Name: names.PodTopologySpread, Args: &config.PodTopologySpreadArgs{
			DefaultingType:     config.ListDefaulting,
			DefaultConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway}},
		}}}
	}
	for name, tc := range map[string]struct {
		score     string
		of, all   int32
		args      []config.PluginConfig
		extenders []config.Extender
		want      bool
	}{
		"Kubernetes' scores":            {score: names.ImageLocality, want: true},
		"spread by default over zones":  {score: names.ImageLocality, args: over(corev1.LabelTopologyZone), want: true},
		"spread by default over racks":  {score: names.ImageLocality, args: over("rack")},
		"a plugin of others":            {score: "ByAnnotation"},
		"an extender":                   {score: names.ImageLocality, extenders: []config.Extender{{}}},
		"nodes to score":                {score: names.ImageLocality, of: 50},
		"nodes to score, all profiles'": {score: names.ImageLocality, all: 50},
	} {
		p := config.KubeSchedulerProfile{SchedulerName: "a", PercentageOfNodesToScore: &tc.of, PluginConfig: tc.args, Plugins: &config.Plugins{
			QueueSort: enabled(names.PrioritySort), Bind: enabled(names.DefaultBinder), Score: enabled(tc.score),
		}}
		built, err := frameworkruntime.NewFramework(t.Context(), registry, &p)
		if err != nil {
			t.Fatal(err)
		}
		s := Scheduler{
			Scheduler: &scheduler.Scheduler{Profiles: profile.Map{"a": built}}, Profiles: []config.KubeSchedulerProfile{p}, Extenders: tc.extenders, PercentageOfNodesToScore: tc.all,
		}
		if got := hintedProfiles(s).Has("a"); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
