package plugin_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/plugin"
)

// What NodeLaunch adds to a scheduling cycle that fails.
func BenchmarkPostFilter(b *testing.B) {
	p, err := plugin.New(plugin.Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		b.Fatal(err)
	}
	fw, err := frameworkruntime.NewFramework(b.Context(), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	made, err := p.NodeLaunch(b.Context(), nil, fw)
	if err != nil {
		b.Fatal(err)
	}
	post, ok := made.(fwk.PostFilterPlugin)
	if !ok {
		b.Fatalf("%T has no PostFilter", made)
	}
	pods := make([]*corev1.Pod, 10000)
	for i := range pods {
		pods[i] = newPod(fmt.Sprintf("pod-%d", i), "500m", "512Mi")
	}
	state := framework.NewCycleState()
	for i := 0; b.Loop(); i++ {
		post.PostFilter(b.Context(), state, pods[i%len(pods)], nil)
	}
}
