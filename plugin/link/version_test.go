package link_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/link"
)

// A launcher of another major version is reported as such, whether it refuses, or is too old to: its state is not taken for the
// catalog, in which all that is missing would be gone, and its questions are not answered. One of the right version that takes its
// place is received.
func TestAnotherVersionIsNotReceived(t *testing.T) {
	for name, c := range map[string]struct {
		version *api.Version
		refuses bool
	}{
		"older than 1.0":     {},
		"newer":              {version: &api.Version{Major: api.ProtocolMajor + 1, Minor: 3}},
		"newer, and refuses": {version: &api.Version{Major: api.ProtocolMajor + 1, Minor: 3}, refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{
				script: [][]*api.CatalogUpdate{{{Full: true}}, {{Full: true}}}, refuses: c.refuses,
				asks: make(chan *api.Question, 1), got: make(chan *api.Answer, 1),
			}
			s.speaks = func() *api.Version {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.streams > 0 && !c.refuses {
					return api.OwnVersion() // Another launcher has taken its place.
				}
				return c.version
			}
			cl := connect(t, s, 0)
			want := link.Connection{Launcher: c.version.Text(), Skew: api.SkewMajor}
			if got := receive(t, cl.connected); got != want {
				t.Errorf("connection %v, want %v", got, want)
			}
			if c.refuses {
				var refused *api.IncompatibleError
				if _, err := cl.Launch(t.Context(), &api.LaunchRequest{}); !errors.As(err, &refused) || refused.Version.Text() != c.version.Text() {
					t.Errorf("launching: %v", err)
				}
				if len(cl.updates)+len(cl.questions) > 0 {
					t.Errorf("%d updates, %d questions", len(cl.updates), len(cl.questions))
				}
				return
			}
			if got, want := receive(t, cl.connected), (link.Connection{Up: true, Launcher: api.OwnVersion().Text(), Skew: api.SkewNone}); got != want {
				t.Errorf("connection %v, want %v", got, want)
			}
			receive(t, cl.updates)
			if n := len(cl.updates); n != 0 {
				t.Errorf("%d updates more: the first launcher's was taken for the catalog", n)
			}
		})
	}
}

// With another minor version both go on, and each side sends its version with every first message.
func TestAnotherMinorVersionIsReceived(t *testing.T) {
	newer := &api.Version{Major: api.ProtocolMajor, Minor: api.ProtocolMinor + 1}
	s := &server{
		script: [][]*api.CatalogUpdate{{{Full: true}}}, asks: make(chan *api.Question, 1), got: make(chan *api.Answer, 1),
		speaks: func() *api.Version { return newer },
	}
	c := connect(t, s, 0)
	if got, want := receive(t, c.connected), (link.Connection{Up: true, Launcher: newer.Text(), Skew: api.SkewMinor}); got != want {
		t.Errorf("connection %v, want %v", got, want)
	}
	receive(t, c.updates)
	if _, err := c.Launch(t.Context(), &api.LaunchRequest{}); err != nil {
		t.Error(err)
	}
	s.asks <- &api.Question{Id: "7"}
	if q := receive(t, c.questions); q.GetId() != "7" {
		t.Errorf("question %v: the first message is none", q)
	}
	if err := c.Reply(&api.Answer{Id: "7"}); err != nil {
		t.Fatal(err)
	}
	receive(t, s.got)
	for _, call := range []string{"Launch", "WatchCatalog", "Ask"} {
		if version, _ := s.heard.Load(call); version != api.OwnVersion().Text() {
			t.Errorf("%s came with version %v of the client", call, version)
		}
	}
}

// A launcher whose version has no questions to ask is left alone: the stream of questions is closed before the first.
func TestQuestionsOfAnotherVersion(t *testing.T) {
	s := &server{
		asks: make(chan *api.Question, 1), got: make(chan *api.Answer, 1),
		speaks: func() *api.Version { return &api.Version{Major: api.ProtocolMajor + 1} },
	}
	s.asks <- &api.Question{Id: "7"}
	c := connect(t, s, 0)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if _, asked := s.heard.Load("Ask"); asked && len(s.asks) == 0 {
			break // It was sent, on a stream that the client had closed or was about to close.
		}
		if time.Now().After(deadline) {
			t.Fatal("the stream was not opened")
		}
	}
	if err := c.Reply(&api.Answer{Id: "7"}); err == nil || len(c.questions) > 0 {
		t.Errorf("there are %d questions, and an answer had a way: %v", len(c.questions), err)
	}
}
