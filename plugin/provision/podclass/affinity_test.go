package podclass_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// A pod has the node affinity that its own profile requires, and none that a profile prefers.
func TestAddedAffinity(t *testing.T) {
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "team", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}
	profile := func(name string, affinity *corev1.NodeAffinity) config.KubeSchedulerProfile {
		return config.KubeSchedulerProfile{SchedulerName: name, PluginConfig: []config.PluginConfig{
			{Name: "InterPodAffinity", Args: &config.InterPodAffinityArgs{}},
			{Name: "NodeAffinity", Args: &config.NodeAffinityArgs{AddedAffinity: affinity}},
		}}
	}
	classes := podclass.New(podclass.Needs{Affinity: podclass.AddedAffinity([]config.KubeSchedulerProfile{
		profile("none", nil), profile("prefers", &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}),
		profile("requires", &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}),
	})})
	for name, want := range map[string]*corev1.NodeSelector{"none": nil, "prefers": nil, "requires": required, "other": nil} {
		i := classes.Of(verifytest.Pod("a").SchedulerName(name).Obj(), "")
		if diff := cmp.Diff(want, classes.List()[i].AddedAffinity); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
