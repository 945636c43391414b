package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/slipway-k8s/slipway/launcher/leadership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	namespace = "kube-system"
	name      = "slipway-scheduler"
)

// scene is a Leadership over a Lease in memory, and effects that run under it.
type scene struct {
	t       *testing.T
	api     client.WithWatch
	broken  atomic.Bool
	subject *leadership.Leadership
	effects map[string]*runningEffect
	names   []string
}

type runningEffect struct {
	ctx  context.Context
	done context.CancelFunc
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	lead ID            the scheduler sends its identity
//	renew HOLDER [D]   the Lease names HOLDER, renewed now, for 15 s; by a clock that was D ahead and was set right since
//	effect NAME        an effect begins, if it may
//	finish NAME        the effect ends
//	api broken|fine    the API server fails, or works again
//	pass DURATION      advances the time
//	resign             the scheduler stops; prints how long that took
//
// Each command prints whether the launcher leads and the state of each effect's context.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			ctx, cancel := context.WithCancel(t.Context())
			stopped := make(chan error)
			go func() { stopped <- s.subject.Run(ctx) }()
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
				out := s.command(d)
				synctest.Wait()
				return out + s.state()
			})
			cancel()
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if s.subject.Leading() {
				t.Error("leads after Run has ended")
			}
		})
	})
}

func newScene(t *testing.T) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, effects: map[string]*runningEffect{}}
	s.api = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if s.broken.Load() {
				return errors.New("the API server is down")
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	var err error
	if s.subject, err = leadership.New(leadership.Config{Reader: s.api}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) command(d *datadriven.TestData) string {
	arg := ""
	if len(d.CmdArgs) > 0 {
		arg = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "lead":
		if err := s.subject.Lead(arg, namespace, name); err != nil {
			return err.Error() + "\n"
		}
	case "renew":
		ahead := time.Duration(0)
		if len(d.CmdArgs) > 1 {
			var err error
			if ahead, err = time.ParseDuration(d.CmdArgs[1].Key); err != nil {
				s.t.Fatal(err)
			}
		}
		s.renew(arg, ahead)
	case "effect":
		if ctx, done, ok := s.subject.Context(s.t.Context()); ok {
			s.effects[arg] = &runningEffect{ctx, done}
			s.names = append(s.names, arg)
		} else {
			return arg + " refused\n"
		}
	case "finish":
		s.effects[arg].done()
		delete(s.effects, arg)
	case "api":
		s.broken.Store(arg == "broken")
	case "pass":
		duration, err := time.ParseDuration(arg)
		if err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(duration)
	case "resign":
		start := time.Now()
		err := s.subject.Resign(s.t.Context())
		return fmt.Sprintf("after %s: %v\n", time.Since(start), err)
	default:
		s.t.Fatalf("unknown command %s", d.Cmd)
	}
	return ""
}

func (s *scene) renew(holder string, ahead time.Duration) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := s.api.Get(s.t.Context(), client.ObjectKeyFromObject(lease), lease)
	seconds, now := int32(15), metav1.NewMicroTime(time.Now().Add(ahead))
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
	if err != nil {
		err = s.api.Create(s.t.Context(), lease)
	} else {
		err = s.api.Update(s.t.Context(), lease)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "leading %t\n", s.subject.Leading())
	for _, n := range s.names {
		if e, ok := s.effects[n]; ok {
			state := "running"
			if e.ctx.Err() != nil {
				state = "ended: " + context.Cause(e.ctx).Error()
			}
			fmt.Fprintf(&b, "%s %s\n", n, state)
		}
	}
	return b.String()
}

// A reconciler that waits is woken when leadership is won, without polling.
func TestWaitEndsWithLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = s.subject.Run(ctx) }()
		won := make(chan time.Time)
		go func() {
			if _, done, err := s.subject.Wait(ctx); err == nil {
				done()
			}
			won <- time.Now()
		}()
		time.Sleep(time.Minute)
		start := time.Now()
		if err := s.subject.Lead("me", namespace, name); err != nil {
			t.Fatal(err)
		}
		s.renew("me", 0)
		if d := (<-won).Sub(start); d > time.Second {
			t.Errorf("Wait returned %s after leadership was won", d)
		}
		s.subject.Changed()
		cancel()
		synctest.Wait()
		if _, _, err := s.subject.Wait(ctx); err == nil {
			t.Error("Wait succeeded with an ended context")
		}
	})
}

func TestNewNeedsAReader(t *testing.T) {
	if _, err := leadership.New(leadership.Config{}); err == nil {
		t.Error("no error")
	}
}
