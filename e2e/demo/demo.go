package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// Config of a demo.
type Config struct {
	// Sandbox to start; its Progress is set by the demo.
	Sandbox sandbox.Config
	// Out receives the story, or with JSON the report alone.
	Out io.Writer
	// JSON prints one object at the end and nothing else.
	JSON bool
	// Terminal says that Out is one, on which the table is redrawn in place.
	Terminal bool
}

// patience is how long a step may take at most, whatever the sandbox's speed: no user waits longer.
const patience = 150 * time.Second

// Run tells the story and returns its report. The error says what kept the story from being told at all, or that it was
// interrupted; a step that did not come true is in the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	out := cfg.Out
	if cfg.JSON {
		out = io.Discard
	}
	s := &story{screen: screen{out: out, live: cfg.Terminal && !cfg.JSON}, config: cfg}
	defer s.stop()
	steps := s.steps()
	for _, step := range steps {
		if !s.tell(ctx, step) {
			break
		}
	}
	s.report.finish(len(steps))
	s.stop()
	if cfg.JSON {
		encoder := json.NewEncoder(cfg.Out)
		encoder.SetIndent("", "  ")
		return s.report, encoder.Encode(s.report)
	}
	s.summary()
	return s.report, ctx.Err()
}

// story is a demo under way.
type story struct {
	config   Config
	screen   screen
	report   Report
	sandbox  *sandbox.Sandbox
	client   client.Client
	recorder *observe.Recorder
	stopped  bool
	cancel   context.CancelFunc
}

// step is one sentence of the story; run returns what came of it.
type step struct {
	name, title string
	run         func(context.Context) (string, error)
}

func (s *story) steps() []step {
	return []step{
		{"sandbox", "start a cluster and an AWS on this machine", s.start},
		{"pool", "create a NodePool and an EC2NodeClass, as for Karpenter", s.pool},
		{"scale-up", "scale four Deployments from 0 to 60 pods", s.scaleUp},
		{"unplaceable", "ask for a pod that no node can hold", s.unplaceable},
		{"spot-interruption", "let EC2 take a spot instance away", s.interrupt},
		{"scale-down", "scale to zero: the nodes are reclaimed", s.scaleDown},
		{"leaks", "count what is left on EC2", s.leaks},
	}
}

func (s *story) tell(ctx context.Context, st step) bool {
	s.screen.line("\n── %s", st.title)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	detail, err := st.run(ctx)
	result := Step{Name: st.name, OK: err == nil, Seconds: time.Since(began).Seconds(), Detail: detail}
	mark := "✓"
	if err != nil {
		mark, result.Detail = "✗", err.Error()
	}
	s.report.Steps = append(s.report.Steps, result)
	s.screen.line("%s %s (%.1f s)", mark, result.Detail, result.Seconds)
	if err != nil && s.sandbox != nil {
		s.screen.line("%s", s.evidence())
	}
	return err == nil
}

// start brings the sandbox up and begins to watch it.
func (s *story) start(ctx context.Context) (string, error) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	cfg := s.config.Sandbox
	cfg.Progress = func(text string) { s.screen.progress(text) }
	var err error
	if s.sandbox, err = sandbox.Start(ctx, cfg); err != nil {
		return "", err
	}
	if s.client, err = client.New(s.sandbox.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		return "", err
	}
	if s.recorder, err = observe.New(s.sandbox.RESTConfig()); err != nil {
		return "", err
	}
	if err := s.recorder.Start(watching); err != nil {
		return "", err
	}
	return "etcd, kube-apiserver, kube-controller-manager, slipway-scheduler, slipway-launcher and AWS are up", nil
}

func (s *story) stop() {
	if s.stopped || s.cancel == nil {
		return
	}
	s.stopped = true
	s.cancel() // The watches end first: kube-apiserver waits for them.
	if s.sandbox != nil {
		if err := s.sandbox.Stop(); err != nil {
			s.screen.line("the sandbox did not stop cleanly: %v", err)
		}
	}
}

// evidence is the end of both processes' logs, for a step that failed.
func (s *story) evidence() string {
	var text strings.Builder
	for _, name := range []string{"scheduler", "launcher"} {
		fmt.Fprintf(&text, "last lines of the %s (%s):\n%s\n", name, filepath.Base(s.sandbox.LogFile(name)), s.sandbox.Tail(name, 15))
	}
	return text.String()
}
