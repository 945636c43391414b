package bench_test

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// lab is a sandbox that one benchmark has for itself, and what it sees of it.
type lab struct {
	b *testing.B
	*testbed.Testbed
}

// newLab starts a sandbox with one EC2NodeClass, without any Node.
func newLab(b *testing.B, cfg sandbox.Config) *lab {
	b.Helper()
	// What the recorder's informers have to say would be between the figures.
	log.SetLogger(logr.Discard())
	cfg.BinDir = testbed.BinDir("../..")
	cfg.Notice = func(text string) { b.Log(text) }
	l := &lab{b: b, Testbed: testbed.Start(b, cfg)}
	l.Create(sandbox.NodeClass("default"))
	return l
}

// machine describes what the figures were measured on, its load included: they mean little without.
func machine() string {
	model := "an unknown CPU"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.Trim(name, "\t :\n")
				break
			}
		}
	}
	load := "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return fmt.Sprintf("%d CPUs of %s, %s/%s, load average before %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, load)
}

// pool creates a NodePool and waits until it may launch; cpus restricts its machines where it is given.
func (l *lab) pool(name string, cpus ...string) {
	l.b.Helper()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template := &pool.Spec.Template
	template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
		{Key: awsv1.LabelInstanceCategory, Operator: corev1.NodeSelectorOpIn, Values: []string{"c", "m", "r"}},
	}
	if len(cpus) > 0 {
		template.Spec.Requirements = append(template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: cpus,
		})
	}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	l.Create(pool)
	deadline := time.Now().Add(time.Minute)
	for !pool.StatusConditions().Root().IsTrue() {
		if time.Now().After(deadline) {
			l.b.Fatalf("NodePool %s is not ready: %+v", name, pool.Status.Conditions)
		}
		time.Sleep(20 * time.Millisecond)
		if err := l.API.Get(l.b.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			l.b.Fatal(err)
		}
	}
}

// deployment creates a Deployment of n pods that ask for cpu and memory and run on nodes of the pool alone.
func (l *lab) deployment(name, pool string, n int32, spec corev1.PodSpec) *appsv1.Deployment {
	l.b.Helper()
	d := deploymentOf(name, pool, n, spec)
	l.Create(d)
	return d
}

func deploymentOf(name, pool string, n int32, spec corev1.PodSpec) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: pool}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(labels)}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	return d
}

func podSpec(cpu, memory string) corev1.PodSpec {
	grace := int64(0)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
		}}},
	}
}

// pods lists the histories of a Deployment's pods that are not deleted.
func (l *lab) pods(deployment string) []observe.Pod {
	var out []observe.Pod
	for _, p := range l.Recorder.Pods() {
		if p.Object.Labels["app"] == deployment && !p.Deleted.Seen() {
			out = append(out, p)
		}
	}
	return out
}

// claims lists the histories of the NodeClaims that promise a slot to one of the pods.
func (l *lab) claims(pods []observe.Pod) []observe.Claim {
	uids := map[string]bool{}
	for _, p := range pods {
		uids[string(p.Object.UID)] = true
	}
	var out []observe.Claim
	for _, c := range l.Recorder.Claims() {
		for _, uid := range observe.PromisedTo(c) {
			if uids[uid] {
				out = append(out, c)
				break
			}
		}
	}
	return out
}

// last is the latest of the moments.
func last[T any](list []T, moment func(T) observe.Moment) time.Time {
	var out time.Time
	for _, item := range list {
		if at := moment(item).At; at.After(out) {
			out = at
		}
	}
	return out
}

// millis prints a distribution of seconds.
func millis(d observe.Distribution) string {
	return fmt.Sprintf("p50 %7.1f ms, p99 %7.1f ms, %d measured", d.P50*1000, d.P99*1000, d.N)
}
