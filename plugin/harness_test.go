package plugin_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/slipway-k8s/slipway/plugin"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// klog's flush loop lives as long as the process, and the scheduler's metrics recorders look for their end
		// once a second.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("k8s.io/kubernetes/pkg/scheduler/metrics.(*MetricAsyncRecorder).run"),
	)
}

// harness is a real scheduler with the plugin, on a fake API server, and a launcher of the test's.
type harness struct {
	t        testing.TB
	ctx      context.Context
	client   *fake.Clientset
	sched    *scheduler.Scheduler
	plugin   *plugin.Plugin
	launcher *testLauncher
	registry *prometheus.Registry
	recorder *record.FakeRecorder
	informer informers.SharedInformerFactory
	// cycles is the scheduler that runs.
	cycles sync.WaitGroup
}

type harnessOptions struct {
	// args of NodeLaunch, YAML lines; for nil batches close when they are complete, and never for the time they take. No plan is cut short on a busy
	// machine but where planTimeout is given.
	args []string
	// absent leaves the launcher's socket closed.
	absent bool
	// fault is that of the plugin's options. Without one the test fails where the plugin recovers a panic, or switches a part off.
	fault func(point string, pod *corev1.Pod)
	// objects that exist from the start.
	objects []runtime.Object
	prepare func(*testLauncher)
	// profile changes the profile of the sample configuration.
	profile func(*config.KubeSchedulerProfile)
	// launchFirst puts NodeLaunch before DefaultPreemption.
	launchFirst bool
	// standby leaves the scheduler to the test's call of lead.
	standby bool
}

// start runs the scheduler with the sample configuration.
func start(tb testing.TB, o harnessOptions) *harness {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	h := &harness{t: tb, ctx: ctx, launcher: newTestLauncher(tb), registry: prometheus.NewRegistry(), recorder: record.NewFakeRecorder(10000)}
	if o.prepare != nil {
		o.prepare(h.launcher)
	}
	if o.args == nil {
		o.args = []string{"batchIdle: 1m", "batchMax: 2m"}
	}
	if !slices.ContainsFunc(o.args, func(line string) bool { return strings.HasPrefix(line, "planTimeout:") }) {
		o.args = append(slices.Clone(o.args), "planTimeout: 2m")
	}
	if !o.absent {
		h.launcher.serve(tb)
	}
	h.client = fake.NewClientset(o.objects...)
	h.client.PrependReactor("create", "pods", h.bind)
	h.client.PrependReactor("list", "pods", h.listPods)
	watched := make(chan struct{})
	h.client.PrependWatchReactor("pods", h.watchPods(watched))
	h.informer = scheduler.NewInformerFactory(h.client, 0)
	profiles := sample(tb, "../manifests/scheduler/beside.yaml", append(o.args, "socket: "+h.launcher.socket)...)
	if post := profiles[0].Plugins.PostFilter.Enabled; o.launchFirst {
		post[1], post[2] = post[2], post[1]
	}
	if o.profile != nil {
		o.profile(&profiles[0])
	}
	var err error
	if h.plugin, err = plugin.New(plugin.Options{Registerer: h.registry, Fault: o.fault}); err != nil {
		tb.Fatal(err)
	}
	recorder := events.NewFakeRecorder(10000)
	recorders := profile.RecorderFactory(func(string) events.EventRecorderLogger { return recorder })
	h.sched, err = scheduler.New(ctx, h.client, h.informer, nil, recorders,
		scheduler.WithProfiles(profiles...), scheduler.WithPodInitialBackoffSeconds(1), scheduler.WithPodMaxBackoffSeconds(1),
		scheduler.WithFrameworkOutOfTreeRegistry(h.plugin.Registry()))
	if err != nil {
		tb.Fatal(err)
	}
	if err := h.plugin.Install(ctx, plugin.Scheduler{
		Scheduler: h.sched, Profiles: profiles, Informers: h.informer, Client: h.client, Recorder: h.recorder,
		Identity: "me", LeaseNamespace: "kube-system", LeaseName: "slipway-scheduler",
	}); err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); h.plugin.Run(ctx) }()
	if !o.absent {
		// As in a scheduler that starts: what the launcher sends may come before anything is known of pods and nodes.
		h.eventually("the catalog", func() bool { return h.metric("slipway_launcher_connected", "") == 1 })
	}
	h.informer.Start(ctx.Done())
	h.informer.WaitForCacheSync(ctx.Done())
	<-watched
	if err := h.sched.WaitForHandlersSync(ctx); err != nil {
		tb.Fatal(err)
	}
	if !o.standby {
		h.lead()
	}
	tb.Cleanup(func() {
		cancel()
		<-done
		h.cycles.Wait()
		h.informer.Shutdown()
		if o.fault == nil {
			h.unharmed()
		}
	})
	return h
}

// unharmed fails the test if the plugin has recovered a panic, or has switched a part off.
func (h *harness) unharmed() {
	h.t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); name != "slipway_plugin_panics_total" && name != "slipway_hook_trips_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if n := m.GetCounter().GetValue(); n > 0 {
				h.t.Errorf("%s of %s is %v: the log has the cause", f.GetName(), m.GetLabel()[0].GetValue(), n)
			}
		}
	}
}

// lead runs the scheduler, as leader election does once this process holds the Lease.
func (h *harness) lead() { h.cycles.Go(func() { h.sched.Run(h.ctx) }) }

// sample reads a sample configuration with NodeLaunch's args replaced.
func sample(tb testing.TB, path string, args ...string) []config.KubeSchedulerProfile {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	out := strings.Replace(string(text), "          socket: /run/slipway/launcher.sock\n", "          "+strings.Join(args, "\n          ")+"\n", 1)
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(out), nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		tb.Fatalf("%s is a %T", path, obj)
	}
	return cfg.Profiles
}

// bind does what the API server does with a binding.
func (h *harness) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := create.GetObject().(*corev1.Binding)
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	obj, err := h.client.Tracker().Get(gvr, binding.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod := obj.(*corev1.Pod).DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	return true, binding, h.client.Tracker().Update(gvr, pod, binding.Namespace)
}

// deployment creates pods of one ReplicaSet that wants as many.
func (h *harness) deployment(name string, n int) {
	h.t.Helper()
	h.replicaSet(name, n)
	for i := range n {
		h.pod(fmt.Sprintf("%s-%d", name, i), ownedBy(name))
	}
}

func (h *harness) replicaSet(name string, n int) {
	h.t.Helper()
	if _, err := h.client.AppsV1().ReplicaSets("default").Create(h.ctx, replicaSet(name, n), metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func replicaSet(name string, n int) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("rs-" + name)},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(n))},
	}
}

func ownedBy(replicaSet string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet, UID: types.UID("rs-" + replicaSet), Controller: new(true),
		}}
		p.Labels = map[string]string{"app": replicaSet}
	}
}

// pod creates a pod of half a CPU.
func (h *harness) pod(name string, tweak func(*corev1.Pod)) {
	h.t.Helper()
	pod := newPod(name, "500m", "512Mi")
	if tweak != nil {
		tweak(pod)
	}
	if _, err := h.client.CoreV1().Pods(pod.Namespace).Create(h.ctx, pod, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func newPod(name, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{
			SchedulerName: "slipway",
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			}}}},
		},
	}
}

// newNode returns a node of an instance. One without taints is initialized.
func newNode(name, cpu string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	own := map[string]string{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "us-east-1a", "kubernetes.io/os": "linux"}
	maps.Copy(own, labels)
	if len(taints) == 0 {
		own["karpenter.sh/initialized"] = "true"
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("7Gi"),
		corev1.ResourcePods: resource.MustParse("58"), corev1.ResourceEphemeralStorage: resource.MustParse("17Gi"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: own},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Allocatable: list, Capacity: list,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// initialized returns the node as it is once it is initialized.
func initialized(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.Spec.Taints, n.Labels["karpenter.sh/initialized"] = nil, "true"
	return n
}

// ownedNode is a node of the launcher's, as it is before its startup taint goes: its NodeClaim owns it.
func ownedNode(name, cpu, claim string, taints ...corev1.Taint) *corev1.Node {
	n := newNode(name, cpu, map[string]string{"karpenter.sh/nodepool": "default"}, taints...)
	n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim, UID: types.UID("uid-" + claim)}}
	n.Status.Conditions[0].LastTransitionTime = metav1.Now()
	return n
}

// eventually waits for a fact.
func (h *harness) eventually(what string, fact func() bool) {
	h.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !fact() {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// bound counts the pods that have a node.
func (h *harness) bound() int {
	h.t.Helper()
	list, err := h.client.CoreV1().Pods(metav1.NamespaceAll).List(h.ctx, metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	n := 0
	for _, p := range list.Items {
		if p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// says reports whether the pod's PodScheduled message has all of the texts.
func (h *harness) says(name string, texts ...string) bool {
	h.t.Helper()
	message := h.message(name)
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(message, text) })
}

// message returns the pod's PodScheduled message.
func (h *harness) message(name string) string {
	pod, err := h.client.CoreV1().Pods("default").Get(h.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

func (h *harness) createNode(n *corev1.Node) {
	h.t.Helper()
	if _, err := h.client.CoreV1().Nodes().Create(h.ctx, n, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) updateNode(n *corev1.Node) {
	h.t.Helper()
	if _, err := h.client.CoreV1().Nodes().Update(h.ctx, n, metav1.UpdateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// metric reads a value; label is the value of the metric's only label, empty for none.
func (h *harness) metric(name, label string) float64 {
	h.t.Helper()
	return metricOf(h.t, h.registry, name, label)
}

// metricOf returns the gauge or counter of that name, of those with several the one whose first label has the value.
func metricOf(tb testing.TB, of prometheus.Gatherer, name, label string) float64 {
	tb.Helper()
	families, err := of.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
