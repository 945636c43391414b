package part_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-k8s/slipway/e2e/part"
)

func TestPart(t *testing.T) {
	cases := []struct {
		name string
		run  func(context.Context) error
		want string
	}{
		{"runs until it is stopped", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, ""},
		{"fails", func(context.Context) error { return errors.New("no luck") }, "etcd ended: no luck"},
		{"just ends", func(context.Context) error { return nil }, "etcd ended: the part was not stopped"},
		{"panics", func(context.Context) error { panic("oh") }, "etcd ended: panic: oh"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started, cancel := context.WithCancel(t.Context())
				var failure error
				p := part.Start(started, "etcd", c.run, func(err error) { failure = err })
				cancel()
				synctest.Wait()
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
				switch {
				case c.want == "" && failure != nil:
					t.Errorf("failed: %v", failure)
				case c.want != "" && (failure == nil || !strings.HasPrefix(failure.Error(), c.want)):
					t.Errorf("failure %v, want %s", failure, c.want)
				}
			})
		})
	}
}

func TestStopGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := part.Start(t.Context(), "etcd", func(context.Context) error { <-release; return nil }, func(err error) { t.Error(err) })
		if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "etcd did not end") {
			t.Errorf("a part that hangs is reported as %v", err)
		}
		close(release)
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
}
