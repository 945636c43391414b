package expire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	// Registers NodeClaims with client-go's scheme.
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
)

// scene has claims and a Terminator that records calls.
type scene struct {
	t       *testing.T
	api     client.Client
	subject *expire.Expiry
	start   time.Time
	foreign bool
	fails   int
	trace   strings.Builder
	due     map[string]time.Time
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	claim NAME after=DURATION|Never [leaving]   a NodeClaim
//	karpenter lives|dies                        whose the claims are
//	terminator fails=N                          Begin fails so often
//	run DURATION                                prints what happened
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := &scene{t: t, start: time.Now(), due: map[string]time.Time{}, api: fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()}
			var err error
			s.subject, err = expire.New(expire.Config{
				Client: s.api, Guard: leadershiptest.Always{}, Ender: s, Ours: func(*karpv1.NodeClaim) bool { return !s.foreign },
			})
			if err != nil {
				t.Fatal(err)
			}
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
		})
	})
}

func TestNewNeedsItsDependencies(t *testing.T) {
	if _, err := expire.New(expire.Config{}); err == nil {
		t.Error("no error without any dependency")
	}
}

// Begin implements expire.Ender.
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

func (s *scene) command(d *datadriven.TestData) string {
	defer s.trace.Reset()
	switch d.Cmd {
	case "claim":
		s.add(d)
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
	name, after := d.CmdArgs[0].Key, ""
	d.ScanArgs(s.t, "after", &after)
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now(), Finalizers: []string{karpv1.TerminationFinalizer}}}
	claim.Spec.ExpireAfter = karpv1.MustParseNillableDuration(after)
	if err := s.api.Create(s.t.Context(), claim); err != nil {
		s.t.Fatal(err)
	}
	if d.HasArg("leaving") {
		if err := s.api.Delete(s.t.Context(), claim); err != nil {
			s.t.Fatal(err)
		}
	}
	s.due[name] = time.Now()
}
