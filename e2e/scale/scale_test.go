package scale_test

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"sync"
	"syscall"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/scale/calls"
)

// The NodePools: the nodes of one drift.
const (
	steady, drifting = "steady", "drifting"
	// parts is how many Deployments there are; the last ones are for nodes that drift.
	parts = 10
	// nodeCPU is less than what a machine of 4 vCPU has for pods, in thousandths.
	nodeCPU = 3900
)

// BenchmarkScale runs many nodes and pods through a day's worth of change, and prints what each stage cost beside its goals.
func BenchmarkScale(b *testing.B) {
	for b.Loop() {
		scale(b)
	}
}

func scale(b *testing.B) {
	b.Helper()
	w := newWorld(b, 0, argument[float64]("speed"))
	pods := argument[int]("pods")
	w.Create(sandbox.NodeClass("default"))
	w.pool(steady)
	w.pool(drifting)
	var stages []calls.Stage
	for _, do := range []func(pods int) calls.Stage{w.scaleOut, w.rest, w.drift, w.consolidation, w.scaleIn} {
		done := do(pods)
		stages = append(stages, done)
		if done.Name == argument[string]("until") {
			break
		}
	}
	b.Logf("%d nodes and %d pods:\n%s", argument[int]("nodes"), pods, calls.Table(stages))
	for _, s := range stages {
		b.Logf("requests during %s:\n%s", s.Name, calls.CallTable(s, 14, calls.Launcher, calls.Scheduler, "kubelets"))
	}
}

// scaleOut creates the pods, wave after wave.
func (w *world) scaleOut(pods int) calls.Stage {
	w.b.Helper()
	return w.stage("scale-out", w.profiled("scale-out", func() {
		w.deployments(int64(nodeCPU * argument[int]("nodes") / pods))
		for wave := argument[int]("wave"); ; wave += argument[int]("wave") {
			n := min(wave, pods)
			w.scaleTo(n)
			w.await(fmt.Sprintf("%d pods to run", n), func(t tally) bool { return t.running == n && t.initialized == t.total() })
			if n == pods {
				return
			}
		}
	}))
}

// rest does nothing for a while, once everything about the stage before is written.
func (w *world) rest(int) calls.Stage {
	w.b.Helper()
	w.written()
	out := w.stage("rest", w.profiled("rest", func() {
		end := time.Now().Add(argument[time.Duration]("rest"))
		w.await("the rest to end", func(tally) bool { return time.Now().After(end) })
	}))
	out.Rest = true
	return out
}

// written waits until both processes have written the Events of what they did: they send some tens of them a second.
func (w *world) written() {
	w.b.Helper()
	const window, most = 10 * time.Second, 10
	begun, since, before := time.Now(), time.Now(), 0
	w.await("the last Events to be written", func(tally) bool {
		if time.Since(since) < window {
			return false
		}
		w.tail()
		writes := 0
		for _, who := range []string{calls.Launcher, calls.Scheduler} {
			writes += w.counts.Writes(who) + w.counts.PodWrites(who)
		}
		ended := before > 0 && writes-before < most
		since, before = time.Now(), writes
		return ended
	})
	w.b.Logf("the last Events were written after %s", time.Since(begun).Round(time.Second))
}

// consolidation deletes two fifths of the pods and lets nodes be consolidated.
func (w *world) consolidation(pods int) calls.Stage {
	w.b.Helper()
	return w.stage("consolidation", w.profiled("consolidation", func() {
		w.consolidate("30s")
		w.scaleTo(pods * 6 / 10)
		w.settle(pods * 6 / 10)
	}))
}

// scaleIn deletes all pods.
func (w *world) scaleIn(int) calls.Stage {
	w.b.Helper()
	return w.stage("scale-in", func() {
		w.scaleTo(0)
		w.await("all nodes to end", func(t tally) bool { return t.pods == 0 && t.total() == 0 && w.instances() == 0 })
	})
}

// drift changes the NodePool of a share of the nodes. In the middle both processes end, the scheduler politely.
func (w *world) drift(pods int) calls.Stage {
	w.b.Helper()
	out := w.stage("drift", func() {
		pool := w.get(drifting)
		patch := client.MergeFrom(pool.DeepCopy())
		pool.Spec.Template.Labels = map[string]string{"example.com/generation": "2"}
		if err := w.API.Patch(w.b.Context(), pool, patch); err != nil {
			w.b.Fatal(err)
		}
		w.await("the nodes to drift", func(t tally) bool { return t.outdated > 0 })
		all, before := w.look().nodes[drifting], w.look().ended
		w.await("half of the nodes to be replaced", func(t tally) bool { return t.ended-before >= all/2 })
		if err := syscall.Kill(w.PID(sandbox.Scheduler), syscall.SIGTERM); err != nil {
			w.b.Fatal(err)
		}
		if err := w.Kill(sandbox.Launcher); err != nil {
			w.b.Fatal(err)
		}
		w.await("all of them to be replaced", func(t tally) bool {
			return t.ended-before >= all && t.outdated == 0 && t.running == pods && t.initialized == t.total()
		})
	})
	out.Restarted = true
	return out
}

// settle waits until the nodes have been the same for a while.
func (w *world) settle(pods int) {
	w.b.Helper()
	last, since := -1, time.Now()
	w.await("consolidation to end", func(t tally) bool {
		if changes := t.launched + t.ended; changes != last || t.running != pods || t.pods != pods || t.initialized != t.total() {
			last, since = changes, time.Now()
		}
		return time.Since(since) > argument[time.Duration]("settle")
	})
}

// profiledFor is for how long a stage is profiled, from its begin on.
const profiledFor = 30 * time.Second

// profiled is do with CPU profiles of its first half minute, where profiles are wanted: of both processes, but for one that ends meanwhile, and of this
// one, which has the control plane, AWS and the machines.
func (w *world) profiled(name string, do func()) func() {
	folder := argument[string]("profiles")
	if folder == "" {
		return do
	}
	return func() {
		var wg sync.WaitGroup
		defer wg.Wait()
		for _, process := range []string{sandbox.Launcher, sandbox.Scheduler} {
			wg.Go(func() {
				if err := w.fetch(process, fmt.Sprintf("%s/%s-%s-cpu.pprof", folder, process, name), fmt.Sprintf("profile?seconds=%.0f", profiledFor.Seconds())); err != nil {
					w.b.Log(err)
				}
			})
		}
		wg.Go(func() {
			if err := profileOwn(fmt.Sprintf("%s/around-%s-cpu.pprof", folder, name)); err != nil {
				w.b.Log(err)
			}
		})
		do()
	}
}

// profileOwn writes a CPU profile of this process to a file.
func profileOwn(path string) error {
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		return fmt.Errorf("profiling the control plane: %w", err)
	}
	time.Sleep(profiledFor)
	pprof.StopCPUProfile()
	return keepFile(path, out.Bytes())
}

// pool creates a NodePool of machines of one size, and waits until it may launch.
func (w *world) pool(name string) {
	w.b.Helper()
	w.Create(nodePool(name))
	w.await("NodePool "+name+" to be ready", func(tally) bool { return w.get(name).StatusConditions().Root().IsTrue() })
}

// nodePool is a NodePool of machines of one size, on demand.
func nodePool(name string) *karpv1.NodePool {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template := &pool.Spec.Template
	template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("Never")
	template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
		{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
		{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"4"}},
	}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "10%"}}
	return pool
}

func (w *world) get(name string) *karpv1.NodePool {
	w.b.Helper()
	pool := &karpv1.NodePool{}
	if err := w.API.Get(w.b.Context(), client.ObjectKey{Name: name}, pool); err != nil {
		w.b.Fatal(err)
	}
	return pool
}

// consolidate lets the nodes of both NodePools be consolidated.
func (w *world) consolidate(after string) {
	w.b.Helper()
	for _, name := range []string{steady, drifting} {
		pool := w.get(name)
		patch := client.MergeFrom(pool.DeepCopy())
		pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration(after)
		if err := w.API.Patch(w.b.Context(), pool, patch); err != nil {
			w.b.Fatal(err)
		}
	}
}

// part is the share of one Deployment.
func part(pods, i int) *int32 {
	return new(int32(pods*(i+1)/parts - pods*i/parts))
}

// deployments creates Deployments without pods. Their pods will ask for so many thousandths of a CPU each.
func (w *world) deployments(cpu int64) {
	w.b.Helper()
	for i := range parts {
		pool := steady
		if i >= parts-argument[int]("drift") {
			pool = drifting
		}
		w.Create(deployment(deploymentName(i), 0, podSpec(cpu, map[string]string{karpv1.NodePoolLabelKey: pool})))
	}
}

// podSpec is a container that asks for so many thousandths of a CPU, on a node with the labels.
func podSpec(cpu int64, selector map[string]string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector:                  selector,
		TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi")},
		}}},
	}
}

func deploymentName(i int) string { return fmt.Sprintf("part-%d", i) }

// scaleTo changes the Deployments so that they have so many pods.
func (w *world) scaleTo(pods int) {
	w.b.Helper()
	for i := range parts {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: deploymentName(i)}}
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, *part(pods, i))
		if err := w.API.Patch(w.b.Context(), d, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			w.b.Fatal(err)
		}
	}
}
