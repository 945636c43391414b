package block_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/block"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

// scene has claims in reservations, and an Ender that records calls.
type scene struct {
	t       *testing.T
	api     client.Client
	subject *block.Drains
	start   time.Time
	foreign bool
	fails   int
	silent  bool
	ends    map[string]time.Time
	trace   strings.Builder
	due     map[string]time.Time
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	claim NAME in=ID type=default|capacity-block [leaving]   a NodeClaim in a capacity reservation
//	ends ID DURATION                                         when the block ends, from the start
//	ec2 silent|answers                                       whether EC2 describes reservations
//	karpenter lives|dies                                     whose the claims are
//	terminator fails=N                                       Begin fails so often
//	run DURATION                                             prints what happened
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := &scene{
				t: t, start: time.Now(), due: map[string]time.Time{}, ends: map[string]time.Time{},
				api: fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(),
			}
			var err error
			s.subject, err = block.New(block.Config{
				Client: s.api, Blocks: s, Guard: leadershiptest.Always{}, Ender: s, Events: s, Ours: func(*karpv1.NodeClaim) bool { return !s.foreign },
			})
			if err != nil {
				t.Fatal(err)
			}
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
		})
	})
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := block.New(block.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

// BlockEnd implements block.Blocks.
func (s *scene) BlockEnd(_ context.Context, id string) (time.Time, error) {
	if s.silent {
		return time.Time{}, errors.New("EC2 does not answer")
	}
	return s.ends[id], nil
}

// Begin implements block.Ender.
func (s *scene) Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	what := ""
	if s.fails > 0 {
		s.fails--
		what = " fails"
	}
	fmt.Fprintf(&s.trace, "%5s begin %s %s%s\n", time.Since(s.start).Round(time.Second), claim.Name, reason, what)
	if what != "" {
		return errors.New("conflict")
	}
	return s.api.Delete(ctx, claim)
}

// Eventf implements announce.EventRecorder.
func (s *scene) Eventf(o runtime.Object, kind, reason, format string, args ...any) {
	name := "?"
	switch o := o.(type) {
	case *karpv1.NodeClaim:
		name = "NodeClaim " + o.Name
	case *corev1.Node:
		name = "Node " + o.Name
	}
	fmt.Fprintf(&s.trace, "%5s %s %s %s: %s\n", time.Since(s.start).Round(time.Second), kind, reason, name, fmt.Sprintf(format, args...))
}

func (s *scene) command(d *datadriven.TestData) string {
	defer s.trace.Reset()
	switch d.Cmd {
	case "claim":
		s.add(d)
	case "ends":
		s.ends[d.CmdArgs[0].Key] = s.start.Add(s.duration(d.CmdArgs[1].Key))
	case "ec2":
		s.silent = d.CmdArgs[0].Key == "silent"
	case "karpenter":
		s.foreign = d.CmdArgs[0].Key == "lives"
	case "terminator":
		d.ScanArgs(s.t, "fails", &s.fails)
	case "run":
		s.run(s.duration(d.CmdArgs[0].Key))
	default:
		s.t.Fatalf("unknown command %s", d.Cmd)
	}
	return s.trace.String()
}

// run does what the manager's work queue does.
func (s *scene) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		next := end
		for _, at := range s.due {
			if at.Before(next) {
				next = at
			}
		}
		time.Sleep(time.Until(next))
		for name, at := range s.due {
			if time.Now().Before(at) {
				continue
			}
			delete(s.due, name)
			result, err := s.subject.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
			if err != nil {
				result.RequeueAfter = time.Second
			}
			if result.RequeueAfter > 0 {
				s.due[name] = time.Now().Add(result.RequeueAfter)
			}
		}
	}
}

func (s *scene) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *scene) add(d *datadriven.TestData) {
	name, id, kind := d.CmdArgs[0].Key, "", ""
	d.ScanArgs(s.t, "in", &id)
	d.ScanArgs(s.t, "type", &kind)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: []string{karpv1.TerminationFinalizer},
		Labels: map[string]string{catalog.LabelReservationID: id, catalog.LabelReservationType: kind},
	}}
	claim.Status.NodeName = "node-" + name
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: claim.Status.NodeName}}
	if err := errors.Join(s.api.Create(s.t.Context(), claim), s.api.Create(s.t.Context(), node)); err != nil {
		s.t.Fatal(err)
	}
	if d.HasArg("leaving") {
		if err := s.api.Delete(s.t.Context(), claim); err != nil {
			s.t.Fatal(err)
		}
	}
	s.due[name] = time.Now()
}
