package variants_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/testbed"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// speed divides the delays of machines and of AWS.
const speed = 10

// lab is a sandbox that one test has for itself.
type lab struct {
	t *testing.T
	*testbed.Testbed

	// killed are the processes that the test has killed.
	killed []string

	mu      sync.Mutex
	notices []string
}

// newLab starts a sandbox with one EC2NodeClass and the NodePool "default" of small nodes, which gives up what is not needed.
func newLab(t *testing.T, cfg sandbox.Config) *lab {
	t.Helper()
	log.SetLogger(logr.Discard())
	l := &lab{t: t}
	cfg.Speed, cfg.BinDir = cmp.Or(cfg.Speed, speed), testbed.BinDir("../..")
	cfg.Notice = func(text string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.notices = append(l.notices, text)
	}
	t.Cleanup(l.check) // It comes after what Start cleans up.
	l.Testbed = testbed.Start(t, cfg)
	l.Create(sandbox.NodeClass("default"), nodePool())
	return l
}

// check holds the notices of a sandbox that has stopped against what is allowed.
func (l *lab) check() {
	if l.Testbed == nil {
		return // It has not started, and the test says why.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, notice := range l.notices {
		if !slices.ContainsFunc(l.killed, func(name string) bool { return strings.Contains(notice, name) }) {
			l.t.Errorf("the sandbox reports: %s", notice)
		}
	}
}

// kill ends a process, which comes back with nothing in its memory.
func (l *lab) kill(process string) {
	l.t.Helper()
	l.killed = append(l.killed, process)
	if err := l.Kill(process); err != nil {
		l.t.Fatal(err)
	}
}

func nodePool() *karpv1.NodePool {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{
		Name: "default", Annotations: map[string]string{catalog.NodeAgeAnnotation: "0s", catalog.PodAgeAnnotation: "0s"},
	}}
	template := &pool.Spec.Template
	template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	in := func(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		in(karpv1.CapacityTypeLabelKey, "on-demand"), in(corev1.LabelInstanceTypeStable, "m6i.large", "m5.large"),
	}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
	pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	return pool
}

// deployment creates a Deployment of n pods; change adapts them.
func (l *lab) deployment(name string, n int32, cpu string, change func(*corev1.PodSpec)) *appsv1.Deployment {
	l.t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(cpu)}
	if change != nil {
		change(&d.Spec.Template.Spec)
	}
	l.Create(d)
	return d
}

func podSpec(cpu string) corev1.PodSpec {
	grace := int64(1)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("256Mi")},
		}}},
	}
}

// scale sets a Deployment's replicas.
func (l *lab) scale(d *appsv1.Deployment, n int) {
	l.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
	if err := l.API.Patch(l.t.Context(), d, patch); err != nil {
		l.t.Fatal(err)
	}
}

// pods lists the pods of a Deployment that run and stay.
func (l *lab) pods(app string) []observe.Pod {
	return slices.DeleteFunc(l.Recorder.Pods(), func(p observe.Pod) bool {
		return p.Object.Labels["app"] != app || p.Deleted.Seen() || p.Terminating.Seen() || p.Object.Status.Phase != corev1.PodRunning
	})
}

func (l *lab) awaitRunning(app string, n int) {
	l.t.Helper()
	l.Await(fmt.Sprintf("%d running pods of %s", n, app), func() bool { return len(l.pods(app)) == n })
}

// claims lists the NodeClaims that exist.
func (l *lab) claims() []observe.Claim {
	return slices.DeleteFunc(l.Recorder.Claims(), func(c observe.Claim) bool { return c.Deleted.Seen() })
}

// schedulerMetrics are those of the scheduler, as an administrator reads them.
func (l *lab) schedulerMetrics() map[string]*dto.MetricFamily {
	l.t.Helper()
	config := rest.CopyConfig(l.RESTConfig())
	// Its certificate is self-signed.
	config.CAData, config.Insecure = nil, true
	transport, err := rest.TransportFor(config)
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.SchedulerMetricsURL(), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return families
}

// logsLack holds that no line of the two logs has one of the texts.
func (l *lab) logsLack(texts ...string) {
	l.t.Helper()
	for _, name := range []string{sandbox.Scheduler, sandbox.Launcher} {
		log, err := os.ReadFile(l.LogFile(name))
		if err != nil {
			l.t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
				l.t.Errorf("%s: %s", name, strings.TrimSpace(line))
			}
		}
	}
}
