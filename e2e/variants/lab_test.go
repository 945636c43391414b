package variants_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// speed divides the delays of machines and of AWS.
	speed = 10
	// patience is how long anything may take here, on a machine however busy.
	patience = 4 * time.Minute
)

// lab is a sandbox that one test has for itself.
type lab struct {
	t *testing.T
	*sandbox.Sandbox
	client   client.WithWatch
	recorder *observe.Recorder

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
	cfg.Speed, cfg.BinDir = cmp.Or(cfg.Speed, speed), binDir()
	cfg.Notice = func(text string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.notices = append(l.notices, text)
	}
	sb, err := sandbox.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.Sandbox = sb
	t.Cleanup(l.stop)
	if l.client, err = client.NewWithWatch(sb.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	if l.recorder, err = observe.New(sb.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if err := l.recorder.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.create(nodeClass(t), nodePool())
	return l
}

// binDir is where `make build` put the binaries.
func binDir() string {
	if dir := os.Getenv("SLIPWAY_BIN_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "bin")
}

// stop takes the sandbox down, and says of a failed test how the logs end.
func (l *lab) stop() {
	if l.t.Failed() {
		for _, name := range []string{sandbox.Scheduler, sandbox.Launcher} {
			l.t.Logf("end of the %s's log:\n%s", name, l.Tail(name, 40))
		}
	}
	if err := l.Stop(); err != nil {
		l.t.Error(err)
	}
	for _, violation := range l.AWS().Violations() {
		l.t.Errorf("not as AWS's model says: %v", violation)
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

func nodeClass(t *testing.T) *awsv1.EC2NodeClass {
	t.Helper()
	var class awsv1.EC2NodeClass
	err := yaml.UnmarshalStrict([]byte(`
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: KarpenterNodeRole-slipway
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: slipway}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: slipway}}]
`), &class)
	if err != nil {
		t.Fatal(err)
	}
	return &class
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

func (l *lab) create(objects ...client.Object) {
	l.t.Helper()
	for _, obj := range objects {
		if err := l.client.Create(l.t.Context(), obj); err != nil {
			l.t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
		}
	}
}

func (l *lab) await(what string, done func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if err := l.recorder.Await(ctx, what, done); err != nil {
		for _, p := range l.recorder.Pods() {
			if !p.Deleted.Seen() && p.Object.Status.Phase != corev1.PodRunning {
				l.t.Logf("pod %s on node %q, nominated %q: %+v", p.Object.Name, p.Object.Spec.NodeName, p.Object.Status.NominatedNodeName, p.Object.Status.Conditions)
			}
		}
		l.t.Fatal(err)
	}
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
	l.create(d)
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
	if err := l.client.Patch(l.t.Context(), d, patch); err != nil {
		l.t.Fatal(err)
	}
}

// pods lists the pods of a Deployment that run and stay.
func (l *lab) pods(app string) []observe.Pod {
	return slices.DeleteFunc(l.recorder.Pods(), func(p observe.Pod) bool {
		return p.Object.Labels["app"] != app || p.Deleted.Seen() || p.Terminating.Seen() || p.Object.Status.Phase != corev1.PodRunning
	})
}

func (l *lab) awaitRunning(app string, n int) {
	l.t.Helper()
	l.await(fmt.Sprintf("%d running pods of %s", n, app), func() bool { return len(l.pods(app)) == n })
}

// claims lists the NodeClaims that exist.
func (l *lab) claims() []observe.Claim {
	return slices.DeleteFunc(l.recorder.Claims(), func(c observe.Claim) bool { return c.Deleted.Seen() })
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
