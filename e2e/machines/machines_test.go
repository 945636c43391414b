package machines_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/e2e/machines"
	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a mode whose machines do nothing but be on, and an AWS that says what the test says.
type stage struct {
	changes chan instance.Instance
	mu      sync.Mutex
	on      map[string]int
	starts  int
	// ends is closed when machines that are switched off may end; nil lets them end at once.
	ends chan struct{}
	// discarded are those that were, in their order.
	discarded []string
}

func (s *stage) Watch(ctx context.Context) <-chan instance.Instance {
	out := make(chan instance.Instance)
	go func() {
		defer close(out)
		for {
			select {
			case i := <-s.changes:
				out <- i
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (s *stage) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (s *stage) Machine(ctx context.Context, m instance.Instance) error {
	if m.UserData == "bad" {
		return errors.New("bad user data")
	}
	s.add(m.ID, 1)
	<-ctx.Done()
	if s.ends != nil {
		<-s.ends
	}
	s.add(m.ID, -1)
	return nil
}

func (s *stage) Discard(m instance.Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discarded = append(s.discarded, fmt.Sprintf("%s, of which %d are on", m.ID, s.on[m.ID]))
}

func (s *stage) add(id string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[id] += n
	s.starts += max(n, 0)
}

func (s *stage) running() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.on)), func(id string) bool { return s.on[id] == 0 })
}

func TestAMachinePerRunningInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{changes: make(chan instance.Instance), on: map[string]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- machines.WithMode(s, s).Run(ctx) }()
		is := func(id string, state instance.State) instance.Instance {
			return instance.Instance{ID: id, State: state}
		}
		failing, bad := is("failing", instance.Running), is("bad", instance.Running)
		failing.FailJoin, bad.UserData = true, "bad"
		for _, step := range []struct {
			change instance.Instance
			want   []string
		}{
			{is("a", instance.Pending), []string{}},
			{is("a", instance.Running), []string{"a"}},
			{is("a", instance.Running), []string{"a"}},
			{is("b", instance.Running), []string{"a", "b"}},
			{failing, []string{"a", "b"}},
			{bad, []string{"a", "b"}},
			{is("a", instance.Off), []string{"b"}},
			{is("failing", instance.Off), []string{"b"}},
			{is("a", instance.Running), []string{"a", "b"}},
		} {
			s.changes <- step.change
			if diff := cmp.Diff(step.want, s.running(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("after %+v, -want +got:\n%s", step.change, diff)
			}
		}
		if s.starts != 3 {
			t.Errorf("%d starts, want 3", s.starts)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := s.running(); len(got) != 0 {
			t.Errorf("still on after the end: %v", got)
		}
	})
}

// A machine that is slow to end is not on twice, and its disks are there as long as it may use them: until its instance is gone, or all ends.
func TestDisksStayUntilTheInstanceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{changes: make(chan instance.Instance), on: map[string]int{}, ends: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- machines.WithMode(s, s).Run(ctx) }()
		change := func(id string, states ...instance.State) {
			for _, state := range states {
				s.changes <- instance.Instance{ID: id, State: state}
			}
			synctest.Wait()
		}
		change("a", instance.Running, instance.Off, instance.Pending, instance.Running)
		if s.on["a"] != 1 || s.starts != 1 {
			t.Errorf("%d are on after %d starts, before the first has ended", s.on["a"], s.starts)
		}
		change("gone", instance.Running, instance.Gone)
		change("never", instance.Gone)
		if len(s.discarded) > 0 {
			t.Errorf("discarded before they ended: %v", s.discarded)
		}
		close(s.ends)
		synctest.Wait()
		if s.on["a"] != 1 || s.starts != 3 {
			t.Errorf("%d are on after %d starts, want the second of a", s.on["a"], s.starts)
		}
		change("b", instance.Running, instance.Off, instance.Off)
		change("a", instance.Off, instance.Gone, instance.Gone)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []string{"gone, of which 0 are on", "a, of which 0 are on", "b, of which 0 are on"}
		if diff := cmp.Diff(want, s.discarded); diff != "" {
			t.Errorf("discarded, -want +got:\n%s", diff)
		}
	})
}

func TestNewWantsItsDependencies(t *testing.T) {
	if _, err := machines.New(machines.Config{}); err == nil {
		t.Error("no error without Admin and Instances")
	}
	s := &stage{}
	if _, err := machines.New(machines.Config{Admin: &rest.Config{Host: "https://127.0.0.1:1"}, Instances: s}); err != nil {
		t.Error(err)
	}
}
