package plugin

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
)

// What a batch costs from its close to the launch request: snapshot, world, plan, verification. One pod or one Deployment is to
// take less than 5 ms.
func BenchmarkBatch(b *testing.B) {
	for _, nodes := range []int{10, 1000} {
		for _, pods := range []int{1, 10, 1000} {
			b.Run(fmt.Sprintf("%dnodes/%dpods", nodes, pods), func(b *testing.B) {
				p := benchPlanner(b, nodes)
				var entries []intake.Entry
				for i := range pods {
					entries = append(entries, intake.Entry{Pod: benchPod(fmt.Sprintf("web-%d", i), ""), At: time.Now()})
				}
				for b.Loop() {
					w, err := p.provisioner.attempt(b.Context(), entries, pendingPods())
					if err != nil || len(w.result.Plan.Claims) == 0 || len(w.result.Plan.Unplaced) > 0 {
						b.Fatalf("%d claims, unplaced %v, error %v", len(w.result.Plan.Claims), w.result.Plan.Unplaced, err)
					}
				}
			})
		}
	}
}

func benchPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{SchedulerName: "slipway", NodeName: node, Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}},
		}}},
	}
}

// benchCatalog is 600 types in three zones, spot and on demand.
func benchCatalog() catalog.State {
	var list []catalog.InstanceType
	for family := range 60 {
		for size := range 10 {
			cpu, memory := int64(2)<<size/2, int64(4+family%4*2)<<size/2
			name := fmt.Sprintf("f%d.s%d", family, size)
			room := corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(cpu*1000-80, resource.DecimalSI), corev1.ResourcePods: resource.MustParse("58"),
				corev1.ResourceMemory: *resource.NewQuantity((memory<<30)*9/10, resource.BinarySI), corev1.ResourceEphemeralStorage: resource.MustParse("17Gi"),
			}
			it := catalog.InstanceType{Name: name, Capacity: room, Allocatable: room, Labels: map[string]string{
				corev1.LabelInstanceTypeStable: name, corev1.LabelArchStable: []string{"amd64", "arm64"}[family%2], corev1.LabelOSStable: "linux",
			}}
			price := float64(cpu)*(0.03+float64(family)*0.0002) + float64(memory)*0.004
			for _, zone := range []string{"a", "b", "c"} {
				it.Offerings = append(it.Offerings,
					catalog.Offering{Zone: zone, CapacityType: "spot", Price: price * (0.3 + float64(family%7)*0.02), Available: true},
					catalog.Offering{Zone: zone, CapacityType: "on-demand", Price: price, Available: true})
			}
			list = append(list, it)
		}
	}
	return catalog.State{
		Generation: 1, InstanceTypes: map[string][]catalog.InstanceType{"default": list},
		NodePools: map[string]catalog.NodePool{"default": {
			Name: "default", NodeClass: "default", Ready: true, Labels: map[string]string{"karpenter.sh/nodepool": "default"},
			Requirements: []catalog.Requirement{{Key: "karpenter.sh/capacity-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"spot", "on-demand"}}},
		}},
	}
}

// benchPlanner is the planner of a scheduler that does not run, in a cluster of full nodes.
func benchPlanner(b *testing.B, nodes int) *planner {
	b.Helper()
	var objects []runtime.Object
	for i := range nodes {
		name := fmt.Sprintf("n-%d", i)
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("550m"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("58")}
		objects = append(objects, benchPod("on-"+name, name), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: string("abc"[i%3])}},
			Status:     corev1.NodeStatus{Allocatable: room, Capacity: room},
		})
	}
	return benchPlannerOf(b, objects)
}

// benchPlannerOf is the planner of a scheduler that does not run and whose cache has the objects.
func benchPlannerOf(tb testing.TB, objects []runtime.Object) *planner {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	client := fake.NewClientset(append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})...)
	factory := scheduler.NewInformerFactory(client, 0)
	p, err := New(Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		tb.Fatal(err)
	}
	text, err := os.ReadFile("../manifests/scheduler/beside.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	profiles := obj.(*config.KubeSchedulerConfiguration).Profiles
	recorder := events.NewFakeRecorder(10)
	sched, err := scheduler.New(ctx, client, factory, nil, profile.RecorderFactory(func(string) events.EventRecorderLogger { return recorder }),
		scheduler.WithProfiles(profiles...), scheduler.WithFrameworkOutOfTreeRegistry(p.Registry()))
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.Install(ctx, Scheduler{Scheduler: sched, Profiles: profiles, Informers: factory, Client: client, Recorder: record.NewFakeRecorder(10)}); err != nil {
		tb.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cancel()
		factory.Shutdown()
		if err := p.core.Load().link.Close(); err != nil {
			tb.Error(err)
		}
	})
	planner := p.core.Load().planner
	planner.view.Receive(benchCatalog(), time.Now())
	planner.view.Resync(time.Now())
	return planner
}
