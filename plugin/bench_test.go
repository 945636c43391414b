package plugin_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/plugin"
)

// What NodeLaunch adds to a scheduling cycle that fails.
func BenchmarkPostFilter(b *testing.B) {
	p, err := plugin.New(plugin.Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		b.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	fw, err := frameworkruntime.NewFramework(b.Context(), nil, nil, frameworkruntime.WithInformerFactory(factory))
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

// What 1,000 pods of one kind cost the scheduler beside nodes that are full: from its start until all are in the launch request,
// in seconds of CPU of this process, which is the scheduler, the plugin and a fake API server.
func BenchmarkPendingPods(b *testing.B) {
	const pods = 1000
	for _, nodes := range []int{10, 1000} {
		b.Run(fmt.Sprintf("%dnodes", nodes), func(b *testing.B) {
			var spent float64
			for b.Loop() {
				objects := append(fullNodes(nodes), replicaSet("web", pods))
				for i := range pods {
					pod := newPod(fmt.Sprintf("web-%d", i), "500m", "512Mi")
					ownedBy("web")(pod)
					objects = append(objects, pod)
				}
				before := cputime.Used().Seconds()
				h := start(b, harnessOptions{objects: objects, args: []string{"batchIdle: 1m", "batchMax: 2m"}})
				h.eventually("all pods to be launched for", func() bool { return len(h.launcher.podNames()) == pods })
				spent += cputime.Used().Seconds() - before
				if n := len(h.launcher.requests()); n != 1 {
					b.Errorf("%d batches", n)
				}
			}
			b.ReportMetric(spent/float64(b.N), "cpu-s/op")
		})
	}
}

func fullNodes(n int) []runtime.Object {
	var out []runtime.Object
	for i := range n {
		node := newNode(fmt.Sprintf("full-%d", i), "4", nil)
		pod := newPod("on-"+node.Name, "4", "512Mi")
		pod.Spec.NodeName = node.Name
		out = append(out, node, pod)
	}
	return out
}
