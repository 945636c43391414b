package bench_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

const (
	many = 1000
	// stockProfile has Kubernetes' own plugins alone.
	stockProfile = "stock"
	// writers is how many objects are created at a time.
	writers = 32
	// ticks is the kernel's USER_HZ, which is 100 wherever Go runs on Linux.
	ticks = 100
)

// 1,000 pods at once, beside nodes that have no room: from the last pod to the CreateFleet requests, and what the scheduler's
// process spends on them, beside what the stock loop of the same binary spends to find that none of them fits.
func BenchmarkManyPods(b *testing.B) {
	for _, nodes := range []int{10, 1000} {
		for _, profile := range []string{"slipway", stockProfile} {
			b.Run(fmt.Sprintf("%dnodes/%s", nodes, profile), func(b *testing.B) {
				for b.Loop() {
					manyPods(b, nodes, profile)
				}
			})
		}
	}
}

func manyPods(b *testing.B, nodes int, profile string) {
	b.Helper()
	b.Log(machine())
	stock := profile == stockProfile
	cfg := sandbox.Config{StockProfile: stockProfile}
	if stock {
		cfg.PluginArgs = map[string]any{"hooks": false}
	}
	l := newLab(b, cfg)
	l.pool("bench")
	l.fullNodes(nodes)
	pid := l.PID(sandbox.Scheduler)
	before, start := cpuSeconds(b, pid), time.Now()
	l.Create(plainDeployment("many", many, profile))
	if !stock {
		var calls []time.Time
		l.Await("the CreateFleet calls", func() bool {
			pods := l.pods("many")
			if len(pods) == many {
				calls = l.calls(pods)
			}
			return calls != nil
		})
		spent := cpuSeconds(b, pid) - before
		created := last(l.pods("many"), func(p observe.Pod) observe.Moment { return p.Created })
		first, lastCall := calls[0].Sub(created), calls[len(calls)-1].Sub(created)
		b.ReportMetric(float64(lastCall.Milliseconds()), "last-call-ms")
		b.ReportMetric(spent, "cpu-s-to-call")
		b.Logf("%d nodes: last of %d pods created %.1f s after the Deployment; first CreateFleet %.0f ms after it, last of %d calls %.0f ms; %d NodeClaims; scheduler's CPU until then %.2f s",
			nodes, many, created.Sub(start).Seconds(), float64(first.Milliseconds()), len(calls), float64(lastCall.Milliseconds()), len(l.claims(l.pods("many"))), spent)
	}
	l.Await("the pods to be told", func() bool { return l.told("many") == many })
	spent := cpuSeconds(b, pid) - before
	pods := l.pods("many")
	created := last(pods, func(p observe.Pod) observe.Moment { return p.Created })
	told := last(pods, func(p observe.Pod) observe.Moment { return p.Unschedulable })
	b.ReportMetric(spent, "cpu-s")
	b.Logf("%d nodes, %s: every pod has its condition %.1f s after the last was created; scheduler's CPU until then %.2f s",
		nodes, profile, told.Sub(created).Seconds(), spent)
}

// told counts the pods whose condition says that they do not fit, and those that were bound before it was their turn.
func (l *lab) told(deployment string) int {
	n := 0
	for _, p := range l.pods(deployment) {
		if p.Unschedulable.Seen() || p.Bound.Seen() {
			n++
		}
	}
	return n
}

// plainDeployment is one whose pods may run on any node, of a profile of the scheduler.
func plainDeployment(name string, n int32, profile string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec("500m", "1Gi")}
	if profile == stockProfile {
		d.Spec.Template.Spec.SchedulerName = stockProfile
	}
	return d
}

// fullNodes creates Nodes without a machine behind them, each Ready and with one pod that takes all its CPUs. Their Leases
// are written last: the node lifecycle controller takes the Nodes for alive for the next 50 s, which is all the time there is.
func (l *lab) fullNodes(n int) {
	l.b.Helper()
	l.each(n, func(name string) []client.Object {
		now := metav1.Now()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		node.Status.Capacity = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("58"),
		}
		node.Status.Allocatable = node.Status.Capacity
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now,
		}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: podSpec("4", "1Gi")}
		pod.Spec.NodeName = name
		return []client.Object{node, pod}
	})
	l.Await("the nodes to be without taints", func() bool {
		ready := 0
		for _, node := range l.Recorder.Nodes() {
			if len(node.Object.Spec.Taints) == 0 {
				ready++
			}
		}
		return ready >= n
	})
	l.each(n, func(name string) []client.Object {
		now := metav1.NowMicro()
		seconds := int32(40)
		return []client.Object{&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
		}}
	})
}

// each creates the objects of n names, many at a time.
func (l *lab) each(n int, objects func(name string) []client.Object) {
	l.b.Helper()
	names := make(chan string)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for name := range names {
				for _, obj := range objects(name) {
					if err := l.API.Create(l.b.Context(), obj); err != nil {
						l.b.Errorf("creating %T %s: %v", obj, name, err)
					}
				}
			}
		})
	}
	for i := range n {
		names <- fmt.Sprintf("full-%04d", i)
	}
	close(names)
	wg.Wait()
	if l.b.Failed() {
		l.b.FailNow()
	}
}

// cpuSeconds is what a process has spent so far, in user and kernel mode, as Linux tells.
func cpuSeconds(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skipf("the CPU time of a process is read from Linux's /proc: %v", err)
	}
	// The name in parentheses may hold blanks; utime and stime are the 14th and 15th field of proc_pid_stat(5).
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	spent := 0.0
	for _, field := range fields[11:13] {
		n, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			b.Fatal(err)
		}
		spent += n / ticks
	}
	return spent
}
