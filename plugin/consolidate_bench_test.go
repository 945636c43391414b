package plugin

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// halfEmptyFleet is nodes of the catalogue's types, on demand, about half full with pods of twenty Deployments, and what the launcher
// reports of them. They have seven pods each.
func halfEmptyFleet(cat catalog.State, nodes int) (objects []apiruntime.Object, reported []*api.FleetNode) {
	return fleetOfSize(cat, nodes, 100)
}

// fleetOfSize is the same with pods of another size, in percent.
func fleetOfSize(cat catalog.State, nodes, percent int) (objects []apiruntime.Object, reported []*api.FleetNode) {
	kinds := slices.DeleteFunc(slices.Clone(cat.InstanceTypes["default"]), func(t catalog.InstanceType) bool {
		cpu := t.Allocatable.Cpu().MilliValue()
		return cpu < 3000 || cpu > 17000
	})
	pods := 0
	for i := range nodes {
		t, name := &kinds[(i*7)%len(kinds)], fmt.Sprintf("n-%d", i)
		labels := map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: string("abc"[i%3]), nodePoolLabel: "default", clusterview.LabelCapacityType: "on-demand",
		}
		maps.Copy(labels, t.Labels)
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels},
			Status: corev1.NodeStatus{
				Allocatable: t.Allocatable, Capacity: t.Capacity,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		})
		reported = append(reported, &api.FleetNode{Name: name, Policy: "WhenEmptyOrUnderutilized"})
		for used := int64(0); used < t.Allocatable.Cpu().MilliValue()*int64(20+(i*13)%60)/100; pods++ {
			app := fmt.Sprintf("app-%d", pods%20)
			pod := benchPod(fmt.Sprintf("%s-%d", app, pods), name)
			pod.Labels["app"] = app
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(app), Controller: new(true)}}
			cpu := int64((250 + pods%20*50) * percent / 100)
			pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu, resource.DecimalSI)
			used += cpu
			objects = append(objects, pod)
		}
	}
	return objects, reported
}

// aboutFleet asks about the nodes, of which so many may be disrupted at once for either reason.
func aboutFleet(nodes []*api.FleetNode, atOnce int) *api.Question {
	return &api.Question{Kind: &api.Question_Consolidate{Consolidate: &api.Consolidate{
		Nodes: nodes, Payback: (2 * time.Hour).Milliseconds(), MinSaving: 0.005,
		Allowances: []*api.Allowance{{NodePool: "default", Empty: int32(atOnce), Underutilized: int32(atOnce)}},
	}}}
}

// One decision about a whole fleet, as the launcher asks for it, over the scheduler's cache: snapshot, all questions to the planner,
// each verified with the scheduler's filters. 5,000 nodes with 50,000 pods are to take
// less than 5 s of CPU and 300 MiB.
func BenchmarkConsolidate(b *testing.B) {
	for _, c := range []struct{ nodes, percent, size int }{{100, 100, 100}, {1000, 10, 100}, {1000, 100, 100}, {5000, 10, 66}} {
		b.Run(fmt.Sprintf("%dnodes/%dpercent", c.nodes, c.percent), func(b *testing.B) {
			cat := benchCatalog()
			objects, reported := fleetOfSize(cat, c.nodes, c.size)
			p := benchPlannerOf(b, objects)
			q := aboutFleet(reported, c.nodes*c.percent/100)
			heap, cpu, decisions := watchHeap(b), cputime.Used().Seconds(), 0
			for b.Loop() {
				decisions++
				a, err := p.consolidator.decide(b.Context(), decision{question: q, catalog: p.view.State(nil, time.Now()), reserved: p.reserved.Snapshot(), buffers: p.buffers.table})
				if err != nil || len(a.GetMoves()) == 0 {
					b.Fatalf("moves %v, error %v", a.GetMoves(), err)
				}
				nodes, saving := 0, 0.0
				for _, m := range a.GetMoves() {
					nodes += len(m.GetNodeNames())
					saving += m.GetSaving()
				}
				b.ReportMetric(float64(a.GetQuestions()), "questions")
				b.ReportMetric(float64(nodes), "nodes-go")
				b.ReportMetric(saving, "USD/h-saved")
			}
			b.ReportMetric((cputime.Used().Seconds()-cpu)/float64(decisions), "CPU-s/op")
			b.ReportMetric(heap()/(1<<20), "MiB-heap-more")
			b.ReportMetric(float64(len(objects)-c.nodes), "pods")
		})
	}
}

// watchHeap looks at the heap until its result is called, which says by how much it grew at most, in bytes.
func watchHeap(b *testing.B) func() float64 {
	b.Helper()
	read := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	first, most := read(), uint64(0)
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			most = max(most, read())
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() float64 {
		close(done)
		all.Wait()
		return float64(max(most, first) - first)
	}
}
