package machines_test

import (
	"context"
	"errors"
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
	s.add(m.ID, -1)
	return nil
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

func TestNewWantsItsDependencies(t *testing.T) {
	if _, err := machines.New(machines.Config{}); err == nil {
		t.Error("no error without Admin and Instances")
	}
	s := &stage{}
	if _, err := machines.New(machines.Config{Admin: &rest.Config{Host: "https://127.0.0.1:1"}, Instances: s}); err != nil {
		t.Error(err)
	}
}
