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
	"github.com/slipway-k8s/slipway/ui"
)

// Config configures a demo.
type Config struct {
	// Sandbox configures the sandbox. The demo sets its Progress.
	Sandbox sandbox.Config
	// Out receives the steps as text, or with JSON the report alone.
	Out io.Writer
	// JSON prints one object at the end and nothing else.
	JSON bool
	// Page serves the page of slipway ui while the demo runs.
	Page bool
	// Terminal is true where Out is a terminal, on which the table is redrawn in place.
	Terminal bool
}

// patience is the longest time of a step, at any speed of the sandbox.
const patience = 150 * time.Second

// Run runs the demo and returns its report. A step that fails is in the report. The error reports that the demo was
// interrupted or its report could not be written.
func Run(ctx context.Context, cfg Config) (Report, error) {
	out := cfg.Out
	if cfg.JSON {
		out = io.Discard
	}
	s := &story{screen: screen{out: out, live: cfg.Terminal && !cfg.JSON}, config: cfg}
	defer s.stop()
	steps := s.steps()
	for _, step := range steps {
		if !s.runStep(ctx, step) {
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

// story is a running demo.
type story struct {
	config   Config
	screen   screen
	report   Report
	sandbox  *sandbox.Sandbox
	client   client.Client
	recorder *observe.Recorder
	stopped  bool
	cancel   context.CancelFunc
	// page receives the end of the page's server; nil without one.
	page <-chan error
}

// step is one step of the demo; run returns its result.
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

// runStep runs one step, prints and records its result, and reports whether it succeeded.
func (s *story) runStep(ctx context.Context, st step) bool {
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

// start starts the sandbox and watches it.
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
	if s.config.Page {
		address, ended, err := servePage(watching, s.sandbox.RESTConfig(), s.sandbox.LauncherURL(ui.Path))
		if err != nil {
			return "", err
		}
		s.page = ended
		s.screen.line("while it runs, see it in a browser: %s", address)
	}
	return "etcd, kube-apiserver, kube-controller-manager, slipway-scheduler, slipway-launcher and AWS are up", nil
}

func (s *story) stop() {
	if s.stopped || s.cancel == nil {
		return
	}
	s.stopped = true
	s.cancel() // kube-apiserver waits for open watches, so they end first.
	if s.page != nil {
		if err := <-s.page; err != nil {
			s.screen.line("the page was not served to the end: %v", err)
		}
	}
	if s.sandbox != nil {
		if err := s.sandbox.Stop(); err != nil {
			s.screen.line("the sandbox did not stop cleanly: %v", err)
		}
	}
}

// evidence returns the end of the logs of scheduler and launcher, for a step that failed.
func (s *story) evidence() string {
	var text strings.Builder
	for _, name := range []string{"scheduler", "launcher"} {
		fmt.Fprintf(&text, "last lines of the %s (%s):\n%s\n", name, filepath.Base(s.sandbox.LogFile(name)), s.sandbox.Tail(name, 15))
	}
	return text.String()
}
