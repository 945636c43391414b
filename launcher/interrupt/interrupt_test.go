package interrupt_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/interrupt"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene has a queue in memory, claims, and a Terminator that writes down what it is asked.
type scene struct {
	t     *testing.T
	queue *memory.Cloud
	api   client.Client
	start time.Time

	// fail is how often Begin fails from now on, panics how often it panics.
	fail, panics atomic.Int64

	mu    sync.Mutex
	trace []string
	// noticed are the times of the notices for which it was asked.
	noticed []time.Time

	registry *prometheus.Registry
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	claim NAME [instance=ID] [node=NAME] [launching] [standby=STATE] [registered]
//	                                                   a NodeClaim, with its node and a pod on it
//	terminator [fails=N] [panics=N]                    Begin fails so often, or panics
//	queue throttled=DURATION                           AWS refuses every call
//	message KIND INSTANCE...                           a message arrives; kind unreadable: with an error
//	status INSTANCE [system] [instance] [event=CODE] [over=CODE]
//	                                                   a check fails from now on, an event is scheduled, or is over; in files checks*
//	run DURATION                                       prints what happened and how many messages are left
//	unhealthy                                          prints how many instances were ended for which part of their status
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := &scene{t: t, queue: memory.New(memory.Config{}), start: time.Now(), registry: prometheus.NewRegistry()}
			b := fake.NewClientBuilder().WithScheme(scheme.Scheme)
			index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
			s.api = b.Build()
			registry, leads := s.registry, true
			subject, err := interrupt.New(interrupt.Config{
				Client: s.api, Launching: func() bool { return false }, Queue: s.queue, Checker: s.queue, Guard: leadershiptest.Always{}, Leading: func() bool { return leads }, Ender: s,
				Events: s, Registerer: registry, Unjoined: s.unjoined,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = subject.Run(ctx) }()
			if strings.HasPrefix(filepath.Base(path), "checks") {
				go func() { _ = subject.RunChecks(ctx) }()
			}
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
			cancel()
			synctest.Wait()
			if n, err := testutil.GatherAndCount(registry, "karpenter_interruption_received_messages_total"); err != nil || n < 8 {
				t.Errorf("%d series of received messages, %v: every type must have one", n, err)
			}
			leads = false // The replica that leads reports the state of the queue.
			if n, err := testutil.GatherAndCount(registry, "slipway_interruption_queue_up"); err != nil || n != 0 {
				t.Errorf("%d series of the queue's state, %v: want none while another replica leads", n, err)
			}
		})
	})
}

func (s *scene) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = append(s.trace, fmt.Sprintf("%3s ", time.Since(s.start).Round(time.Second))+fmt.Sprintf(format, args...))
}

// Eventf implements announce.EventRecorder.
func (s *scene) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	name := o.(client.Object).GetName()
	s.log("event %T %s %s %s: %s", o, name, kind, reason, fmt.Sprintf(format, args...))
}

// Cordon implements interrupt.Ender.
func (s *scene) Cordon(_ context.Context, node, by string) error {
	s.log("cordon %s for %s", node, by)
	return nil
}

// Begin implements interrupt.Ender.
func (s *scene) Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	if s.panics.Add(-1) >= 0 {
		s.log("begin %s panics", claim.Name)
		panic("index out of range")
	}
	if s.fail.Add(-1) >= 0 {
		s.log("begin %s fails", claim.Name)
		return errors.New("conflict")
	}
	s.log("begin %s %s", claim.Name, reason)
	claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, reason, reason)
	return errors.Join(s.api.Update(ctx, claim), client.IgnoreNotFound(s.api.Delete(ctx, claim)))
}

// unjoined implements the field of interrupt.Config: EC2 ended instances i-failed* at launch, and their claims end for that.
func (s *scene) unjoined(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	if !strings.HasPrefix(index.InstanceID(claim.Status.ProviderID), "i-failed") {
		return false, nil
	}
	return true, s.Begin(ctx, claim, "instance_failed")
}

// BeginNoticed implements interrupt.Ender.
func (s *scene) BeginNoticed(ctx context.Context, claim *karpv1.NodeClaim, reason string, at time.Time) error {
	s.mu.Lock()
	s.noticed = append(s.noticed, at)
	s.mu.Unlock()
	return s.Begin(ctx, claim, reason)
}

// BeginNow implements interrupt.Ender.
func (s *scene) BeginNow(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	s.log("end %s at once", claim.Name)
	claim.Annotations = map[string]string{karpv1.NodeClaimTerminationTimestampAnnotationKey: time.Now().UTC().Format(time.RFC3339)}
	return s.Begin(ctx, claim, reason)
}

func (s *scene) command(d *datadriven.TestData) string {
	args := map[string]string{}
	for _, a := range d.CmdArgs {
		args[a.Key] = strings.Join(a.Vals, ",")
	}
	if d.Cmd == "unhealthy" {
		return s.unhealthy()
	}
	first := d.CmdArgs[0]
	switch d.Cmd {
	case "claim":
		s.addClaim(first.Key, args)
	case "terminator":
		for name, left := range map[string]*atomic.Int64{"fails": &s.fail, "panics": &s.panics} {
			n := int64(0)
			if d.HasArg(name) {
				d.ScanArgs(s.t, name, &n)
			}
			left.Store(n)
		}
	case "queue":
		s.queue.Throttle(s.duration(args["throttled"]))
	case "message":
		m := cloud.Message{Kind: cloud.MessageKind(first.Key)}
		if first.Key == "unreadable" {
			m.Err = errors.New("invalid character 'x'")
		}
		for _, a := range d.CmdArgs[1:] {
			m.InstanceIDs = append(m.InstanceIDs, a.Key)
		}
		s.queue.Send(m)
	case "status":
		s.status(d)
	case "run":
		time.Sleep(s.duration(first.Key))
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		out := slices.Concat(s.trace, []string{fmt.Sprintf("%d messages left", s.queue.Queued())})
		s.trace = nil
		return strings.ReplaceAll(strings.Join(out, "\n")+"\n", "*v1.", "")
	default:
		s.t.Fatalf("unknown command %s", d.Cmd)
	}
	return ""
}

func (s *scene) unhealthy() string {
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "karpenter_interruption_instance_status_unhealthy_total" {
				fmt.Fprintf(&out, "%s %g\n", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	return out.String()
}

func (s *scene) status(d *datadriven.TestData) {
	status := cloud.InstanceStatus{ID: d.CmdArgs[0].Key}
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "system":
			status.SystemImpaired = time.Now()
		case "instance":
			status.InstanceImpaired = time.Now()
		case "event", "over":
			e := cloud.ScheduledEvent{Code: a.Vals[0], Description: "as announced"}
			if a.Key == "over" {
				e.Description = "[Completed] as announced"
			}
			status.Events = append(status.Events, e)
		}
	}
	s.queue.Impair(status)
}

func (s *scene) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *scene) addClaim(name string, args map[string]string) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{karpv1.TerminationFinalizer}}}
	if _, ok := args["launching"]; ok {
		claim.Annotations = map[string]string{catalog.LaunchAnnotation: "launch-1"}
	}
	if state, ok := args["standby"]; ok {
		claim.Annotations = map[string]string{
			catalog.StandbyAnnotation: "buffer", catalog.StandbyStateAnnotation: record.FormatStandby(record.StandbyState(state), time.Now()),
		}
	}
	if id := args["instance"]; id != "" {
		claim.Status.ProviderID = "aws:///us-east-1a/" + id
	}
	claim.Status.NodeName = args["node"]
	have := &karpv1.NodeClaim{}
	if s.api.Get(s.t.Context(), client.ObjectKey{Name: name}, have) == nil {
		claim.ResourceVersion = have.ResourceVersion
		if err := s.api.Update(s.t.Context(), claim); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	if reason := args["draining"]; reason != "" {
		claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, reason, reason)
	}
	if _, ok := args["registered"]; ok {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	}
	if _, ok := args["terminating"]; ok {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
	}
	objects := []client.Object{claim}
	if node := args["node"]; node != "" {
		objects = append(
			objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-on-" + node}, Spec: corev1.PodSpec{NodeName: node}},
		)
	}
	for _, o := range objects {
		if err := s.api.Create(s.t.Context(), o); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, ok := args["draining"]; ok {
		if err := s.api.Delete(s.t.Context(), claim); err != nil {
			s.t.Fatal(err)
		}
	}
}
