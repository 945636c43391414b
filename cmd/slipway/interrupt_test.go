package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// asCommand makes the test's binary the command itself.
const asCommand = "SLIPWAY_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// largeInput has pods that are nearly all different: planning them takes seconds.
func largeInput(pods int) string {
	var b strings.Builder
	b.WriteString(objectsYAML)
	for i := range pods {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: pod-%d, labels: {app: "%d"}}
spec:
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: "%d"}}}
  containers: [{name: main, resources: {requests: {cpu: %dm, memory: %dMi}}}]
`, i, i%7, i%7, 100+i%997, 100+i%3989)
	}
	return b.String()
}

// A signal during planning ends the command within moments, with the exit code that a shell reports for a process killed by it, and a
// message. No result is printed that the filters have not checked.
func TestSignalsEndPlanning(t *testing.T) {
	text := largeInput(1500)
	for _, c := range []struct {
		signal os.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		t.Run(fmt.Sprint(c.signal), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "simulate", "-f", "-")
			cmd.Env = append(os.Environ(), asCommand+"=1")
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// It is more than a pipe holds: when all is written the command reads, and handles signals.
			if _, err := in.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(in.Close(), cmd.Process.Signal(c.signal)); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != c.code {
				t.Errorf("the command ended with %v, want exit code %d\n%s", err, c.code, errs.String())
			}
			if !strings.Contains(errs.String(), "planning was cut short: ") || out.Len() > 0 {
				t.Errorf("it printed %q and %q, want the error alone", out.String(), errs.String())
			}
		})
	}
}

// A user ends a view that repeats itself while it reads: that is no error.
func TestWatchEndsWhileItReads(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := newCommand()
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{"status", "--watch", "--kubeconfig", serve(t, cluster(map[string]any{"/api/v1/pods": func() any {
		cancel()
		return json.RawMessage(`{"items": []}`)
	}}))})
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Errorf("the view ended with %v", err)
	}
}
