package roll_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/roll"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a Roller over an API server in memory, the real ledger, and an executor that only records moves.
type scene struct {
	t       *testing.T
	api     client.WithWatch
	ledger  *budget.Ledger
	subject *roll.Roller
	trace   strings.Builder
	// passes counts the lists of NodePools, one in each pass.
	passes int
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	pool NAME nodes=BUDGET [window=DURATION]    a NodePool, with its own soft window; the cron schedule of the budget as input, and then
//	                                            its duration
//	fleet NAME N pool=POOL ...                  N nodes NAME-0, NAME-1, ... with a pod each; the rest as for node
//	node NAME pool=POOL [drifted=AGE] [expires=IN of=EXPIREAFTER] [sick] [grace] [protected] [joining] [joined] [woken] [foreign]
//	                                            a node, with what is to be said of its NodeClaim: joined ones are not initialized either,
//	                                            and a woken one slept for an hour
//	pod NAME node=NODE [protected] [daemonset] [bare]
//	                                            a pod of the ReplicaSet app=NAME, or of no controller
//	pdb NAME allowed=N [app=APP]                for the pods app=NAME, or app=APP
//	gone NAME                                   the executor has ended the node
//	off NAME                                    the executor has called the move off
//	pass DURATION                               time goes by without a Roller
//	run DURATION                                prints the moves that were handed over, and the Events
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
		})
	})
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t}
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	s.api = b.Build()
	var err error
	if s.ledger, err = budget.New(voluntary.Observe(s.api, index.ListClaims(s.api), index.ListNodes(s.api))); err != nil {
		t.Fatal(err)
	}
	counted, err := voluntary.NewMetrics(prometheus.NewRegistry(), s.ledger, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	s.subject, err = roll.New(roll.Config{
		Client: s.counted(), Pods: index.ListPods(s.counted()), Claims: index.ListClaims(s.counted()), Guard: leadershiptest.Always{}, Mover: s, Events: s, Metrics: counted, Window: 12 * time.Hour,
		Ours: func(c *karpv1.NodeClaim) bool { return c.Labels["foreign"] == "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Replace implements roll.Mover.
func (s *scene) Replace(ctx context.Context, claim *karpv1.NodeClaim, why, message string) error {
	if s.ledger.Held(claim.UID) {
		return roll.ErrBusy
	}
	if err := s.ledger.Reserve(ctx, karpv1.DisruptionReasonDrifted, claim); err != nil {
		return err
	}
	fmt.Fprintf(&s.trace, "replace %s: %s: %s\n", claim.Name, why, message)
	return nil
}

// Eventf implements announce.EventRecorder.
func (s *scene) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	if _, ok := o.(*corev1.Node); !ok {
		fmt.Fprintf(&s.trace, "event %s %s: %s\n", o.(client.Object).GetName(), reason, fmt.Sprintf(format, args...))
	}
}

func (s *scene) pool(d *datadriven.TestData, name string) {
	pool := &karpv1.NodePool{}
	b := karpv1.Budget{Nodes: s.arg(d, "nodes")}
	if schedule, duration, ok := strings.Cut(d.Input, "\n"); ok {
		b.Schedule, b.Duration = &schedule, &metav1.Duration{Duration: s.duration(strings.TrimSpace(duration))}
	}
	pool.Name, pool.UID, pool.Spec.Disruption.Budgets = name, types.UID(name), []karpv1.Budget{b}
	if own := s.arg(d, "window"); own != "" {
		pool.Annotations = map[string]string{expire.WindowAnnotation: own}
	}
	s.create(pool)
}

func (s *scene) pdb(d *datadriven.TestData, name string) {
	pdb := &policyv1.PodDisruptionBudget{}
	pdb.Namespace, pdb.Name = "default", name
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": cmp.Or(s.arg(d, "app"), name)}}
	allowed := 0
	d.ScanArgs(s.t, "allowed", &allowed)
	pdb.Status.DisruptionsAllowed = int32(allowed)
	s.create(pdb)
}

func (s *scene) gone(name string) {
	for _, o := range []client.Object{&karpv1.NodeClaim{}, &corev1.Node{}} {
		o.SetName(name)
		if err := s.api.Delete(s.t.Context(), o); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) command(d *datadriven.TestData) string {
	defer s.trace.Reset()
	name := d.CmdArgs[0].Key
	switch d.Cmd {
	case "pool":
		s.pool(d, name)
	case "fleet":
		n, err := strconv.Atoi(d.CmdArgs[1].Key)
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range n {
			s.node(d, fmt.Sprint(name, "-", i))
			s.pod(d, "web", fmt.Sprint(name, "-", i))
		}
	case "node":
		s.node(d, name)
	case "pod":
		s.pod(d, name, s.arg(d, "node"))
	case "pdb":
		s.pdb(d, name)
	case "gone":
		s.gone(name)
	case "off":
		s.ledger.Release(types.UID(name))
	case "pass":
		time.Sleep(s.duration(name))
	case "run":
		ctx, cancel := context.WithTimeout(s.t.Context(), s.duration(name))
		defer cancel()
		if err := s.subject.Run(ctx); err != nil {
			s.t.Fatal(err)
		}
	default:
		d.Fatalf(s.t, "unknown command %s", d.Cmd)
	}
	return s.trace.String()
}

func (s *scene) arg(d *datadriven.TestData, key string) string {
	out := ""
	if d.HasArg(key) {
		d.ScanArgs(s.t, key, &out)
	}
	return out
}

func (s *scene) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *scene) create(o client.Object) {
	if err := s.api.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) node(d *datadriven.TestData, name string) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), CreationTimestamp: metav1.Now(), Labels: map[string]string{karpv1.NodePoolLabelKey: s.arg(d, "pool")},
	}}
	claim.Status.NodeName = name
	if pool := (&karpv1.NodePool{}); s.api.Get(s.t.Context(), client.ObjectKey{Name: s.arg(d, "pool")}, pool) == nil && !d.HasArg("drifted") {
		claim.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: pool.Hash()}
	}
	asleep := d.HasArg("asleep")
	s.ofBuffer(d, claim)
	switch {
	case d.HasArg("joined"):
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	case !d.HasArg("joining") && !asleep:
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	}
	if d.HasArg("foreign") {
		claim.Labels["foreign"] = "true"
	}
	if age := s.arg(d, "drifted"); age != "" {
		claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, "AMIDrift", "a newer image")
		for i := range claim.Status.Conditions {
			if c := &claim.Status.Conditions[i]; c.Type == karpv1.ConditionTypeDrifted {
				c.LastTransitionTime = metav1.NewTime(time.Now().Add(-s.duration(age)))
			}
		}
	}
	if of := s.arg(d, "of"); of != "" {
		claim.Spec.ExpireAfter = karpv1.MustParseNillableDuration(of)
		claim.CreationTimestamp = metav1.NewTime(time.Now().Add(s.duration(s.arg(d, "expires")) - s.duration(of)))
	}
	if d.HasArg("grace") {
		claim.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if d.HasArg("sick") {
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
	}
	if d.HasArg("protected") {
		node.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}
	s.create(claim)
	if !asleep {
		s.create(node)
	}
}

// ofBuffer has a claim be one of a standby buffer's, if the command says so.
func (s *scene) ofBuffer(d *datadriven.TestData, claim *karpv1.NodeClaim) {
	asleep, woken := d.HasArg("asleep"), d.HasArg("woken")
	if asleep || woken || d.HasArg("standby") {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.StandbyAnnotation, "buffer")
	}
	if asleep {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.StandbyStateAnnotation, record.FormatStandby(record.StandbyAsleep, time.Now()))
	}
	if woken {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.StandbyStateAnnotation, record.FormatStandby(record.StandbyAwake, time.Now()))
		claim.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	}
}

func (s *scene) pod(d *datadriven.TestData, name, node string) {
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}
	if d.HasArg("daemonset") {
		owner.Kind = "DaemonSet"
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name + "-" + node, Labels: map[string]string{"app": name}, OwnerReferences: []metav1.OwnerReference{owner},
	}}
	if d.HasArg("bare") {
		pod.OwnerReferences = nil
	}
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	if d.HasArg("protected") {
		pod.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}
	s.create(pod)
}

// TestFleetDoesNotExpireTogether checks that nodes which were created together are spread over the first half of the soft
// window, and each always has the same place.
func TestFleetDoesNotExpireTogether(t *testing.T) {
	born := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var begins []time.Duration
	for i := range 100 {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("7c1f-%d", i)), CreationTimestamp: metav1.NewTime(born)}}
		claim.Spec.ExpireAfter = karpv1.MustParseNillableDuration("100h")
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
		var since time.Time
		for at := born; since.IsZero(); at = at.Add(time.Minute) {
			since = roll.DueOf(claim, expire.Window(claim, nil, 24*time.Hour), at).Since
		}
		begins = append(begins, since.Sub(born))
	}
	slices.Sort(begins)
	if first, last := begins[0], begins[99]; first < 90*time.Hour || last > 95*time.Hour || last-first < 4*time.Hour {
		t.Errorf("the soft windows of a fleet of 100 h begin from %s to %s, want them spread from 90h to 95h", first, last)
	}
	for i := range 9 {
		if gap := begins[10*i+10] - begins[10*i]; gap > 2*time.Hour {
			t.Errorf("no node in %s", gap)
		}
	}
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := roll.New(roll.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}
