package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/liveness"
)

// hanging is an API server whose answer comes when the test releases it, whatever the context says.
type hanging struct {
	client.Reader
	let chan struct{}
}

func (h hanging) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	<-h.let
	return nil
}

// The liveness probe fails where the loop hangs, and not while it waits or the API server is away.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.broken.Store(true)
		reader := hanging{s.api, make(chan struct{})}
		stuck, err := leadership.New(leadership.Config{Reader: reader})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		for _, l := range []*leadership.Leadership{s.subject, stuck} {
			if err := l.Lead("us", namespace, name); err != nil {
				t.Fatal(err)
			}
			go func() { stopped <- l.Run(ctx) }()
		}
		time.Sleep(liveness.Within + time.Second)
		if err := s.subject.Alive(nil); err != nil {
			t.Errorf("without an API server: %v", err)
		}
		if err := stuck.Alive(nil); err == nil {
			t.Error("a loop that hangs is taken to be alive")
		}
		close(reader.let)
		synctest.Wait()
		time.Sleep(time.Second)
		if err := stuck.Alive(nil); err != nil {
			t.Errorf("a loop that goes on: %v", err)
		}
		cancel()
		for range 2 {
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		}
	})
}
