package walk_test

import (
	"os"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// checkMessages compares what was logged about a node with the messages of Karpenter's log, for which people and alerts
// search. The keys are Kubernetes' own: Karpenter has NodeClaim and provider-id where slipway has nodeClaim and instanceID.
func (s *scene) checkMessages() {
	s.t.Helper()
	for _, want := range []struct {
		process, message string
		fields           []string
	}{
		{sandbox.Scheduler, "found provisionable pod(s)", []string{"pods", "duration"}},
		{sandbox.Scheduler, "computed new nodeclaim(s) to fit pod(s)", []string{"nodeclaims", "pods"}},
		{sandbox.Launcher, "created nodeclaim", []string{"nodeClaim", "nodePool"}},
		{sandbox.Launcher, "launched nodeclaim", []string{"nodeClaim", "instanceID", "instanceType", "zone", "capacityType"}},
		{sandbox.Launcher, "registered nodeclaim", []string{"nodeClaim", "node"}},
		{sandbox.Launcher, "initialized nodeclaim", []string{"nodeClaim", "node"}},
		{sandbox.Launcher, "initiating delete from interruption message", []string{"nodeClaim", "messageKind"}},
		{sandbox.Launcher, "tainted node", []string{"node", "taint.Key", "taint.Effect"}},
		{sandbox.Launcher, "deleted node", []string{"node"}},
		{sandbox.Launcher, "deleted nodeclaim", []string{"nodeClaim", "instanceID"}},
	} {
		line := s.logged(want.process, `"`+want.message+`"`)
		if line == "" {
			s.t.Errorf("the %s never logged %q", want.process, want.message)
			continue
		}
		for _, field := range want.fields {
			if !strings.Contains(line, " "+field+"=") {
				s.t.Errorf("%s has no field %s: %s", want.message, field, line)
			}
		}
	}
}

// logged returns the first line with the text in a process's log. It waits a moment, since the API server shows effects
// before they are logged.
func (s *scene) logged(process, text string) string {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		data, err := os.ReadFile(s.LogFile(process))
		if err != nil {
			s.t.Fatal(err)
		}
		if line := lineWith(string(data), text); line != "" || time.Now().After(end) {
			return line
		}
	}
}

func lineWith(log, text string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}
