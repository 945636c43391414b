package walk_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/tap"
)

// failOver is how soon another pair acts after the leading pair ended without releasing the Lease, with the default settings
// of leader election.
const failOver = 25 * time.Second

// pair is one replica: scheduler and launcher.
type pair struct{ scheduler, launcher string }

func pairOf(n int) pair {
	return pair{sandbox.Replica(sandbox.Scheduler, n), sandbox.Replica(sandbox.Launcher, n)}
}

// leader returns the pair whose scheduler was the last to acquire or renew the Lease, and the other pair.
func (s *stage) leader() (leading, standby pair) {
	s.t.Helper()
	leading, standby = pairOf(1), pairOf(2)
	for _, e := range s.Journal().Since(0) {
		if e.Holder != "" && e.Done() && e.Process == standby.scheduler && strings.HasSuffix(e.Name, " leases") {
			leading, standby = standby, leading
		}
	}
	return leading, standby
}

// TestTwoReplicas has two pairs compete for one Lease. The leader is stopped, freezes during a launch, and loses its
// connection to the API server. Each time the other pair takes over and finishes, and the old leader does nothing when it is
// back.
func TestTwoReplicas(t *testing.T) {
	s := newStage(newScene(t, sandbox.Config{Speed: walkSpeed, SpotNotice: spotNotice, Replicas: 2}))
	s.frozenLaunch()
	if argument[bool]("walk") {
		s.politeEnd()
		s.partition()
	}
	s.rest(state{})
	claims := 0
	for _, c := range s.Recorder.Claims() {
		if c.Launched.Seen() {
			claims++
		}
	}
	launched := 0
	for _, i := range s.AWS().Instances() {
		if i.Tags[karpv1.NodePoolLabelKey] == name {
			launched++
		}
	}
	if launched != claims {
		t.Errorf("%d instances were launched for %d NodeClaims", launched, claims)
	}
	s.checkLogs()
}

// politeEnd stops the leader with SIGTERM while pods are created. The Lease is released at once. The standby acquires it, or
// the restarted process, whichever is first.
func (s *stage) politeEnd() {
	s.t.Helper()
	s.rest(state{})
	old, _ := s.leader()
	from := s.Journal().Last()
	s.signal(old.scheduler, syscall.SIGTERM)
	s.run(flows()[0])
	released := slices.ContainsFunc(s.Journal().Since(from), func(e tap.Effect) bool {
		return e.Process == old.scheduler && strings.HasSuffix(e.Name, " leases") && e.Holder == "" && e.Done()
	})
	if !released {
		s.t.Errorf("%s did not give the Lease back", old.scheduler)
	}
}

// frozenLaunch freezes the leader during CreateFleet, as a virtual machine is while it migrates. The leader continues after
// the other pair has finished the launch.
func (s *stage) frozenLaunch() {
	s.t.Helper()
	s.rest(state{})
	old, next := s.leader()
	pid := s.PID(old.scheduler)
	var once sync.Once
	var frozen time.Time
	s.Journal().SetHook(func(e tap.Effect, m tap.Moment) bool {
		if e.Process != old.launcher || e.Name != "EC2 CreateFleet" || m != tap.After {
			return false
		}
		once.Do(func() {
			frozen = time.Now()
			s.signal(old.launcher, syscall.SIGSTOP)
			s.signal(old.scheduler, syscall.SIGSTOP)
		})
		return true
	})
	s.run(flows()[0])
	s.Journal().SetHook(nil)
	if frozen.IsZero() {
		s.t.Fatal("the leader never called CreateFleet")
	}
	s.tookOver(next, frozen)
	s.signal(old.launcher, syscall.SIGCONT)
	s.signal(old.scheduler, syscall.SIGCONT)
	s.standsBy(old, pid)
}

// partition cuts the leader off from the API server, but not from AWS, while a node is being replaced.
func (s *stage) partition() {
	s.t.Helper()
	old, next := s.leader()
	pid, begin := s.PID(old.scheduler), time.Now()
	for _, process := range []string{old.launcher, old.scheduler} {
		s.Taps(process)[0].Cut()
	}
	s.run(flows()[1])
	s.tookOver(next, begin)
	for _, process := range []string{old.launcher, old.scheduler} {
		s.Taps(process)[0].Restore()
	}
	s.standsBy(old, pid)
	s.run(flows()[2])
}

// tookOver checks that the next pair leads, and how long it took until its launcher acted.
func (s *stage) tookOver(next pair, since time.Time) {
	s.t.Helper()
	if leading, _ := s.leader(); leading != next {
		s.t.Errorf("%s leads, want %s", leading.scheduler, next.scheduler)
	}
	for _, e := range s.Journal().Since(0) {
		if e.Process == next.launcher && counted(e) != "" && e.Done() && e.Arrived.After(since) {
			took := e.Arrived.Sub(since)
			s.t.Logf("fail-over after %.1f s: %s %s", took.Seconds(), e.Name, e.Object)
			// Elsewhere, the load of other tests is part of it.
			if argument[bool]("walk") && took > failOver {
				s.t.Errorf("the fail-over took %s, want at most %s", took, failOver)
			}
			return
		}
	}
	s.t.Errorf("%s did nothing", next.launcher)
}

// standsBy waits until a pair that has lost the Lease notices that: its scheduler ends and is restarted.
func (s *stage) standsBy(p pair, pid int) {
	s.t.Helper()
	s.await(p.scheduler+" to stand by", func() error {
		if now := s.PID(p.scheduler); now == 0 || now == pid || s.PID(p.launcher) == 0 {
			return fmt.Errorf("process %d was %d", now, pid)
		}
		if broken := invariants.Always(s.evidence()); len(broken) > 0 {
			return errors.New(strings.Join(broken, "\n"))
		}
		return nil
	})
}

func (s *stage) signal(process string, signal syscall.Signal) {
	s.t.Helper()
	pid := s.PID(process)
	if pid == 0 {
		s.t.Errorf("%s is not running", process)
		return
	}
	if err := syscall.Kill(pid, signal); err != nil {
		s.t.Error(fmt.Errorf("%s to %s: %w", signal, process, err))
	}
}
