package karpenterlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// Lines have Karpenter's keys: a query for an object, a message or a level finds them.
func TestLinesHaveKarpentersKeys(t *testing.T) {
	var out bytes.Buffer
	log, control := factory{}.Create(logsapi.LoggingConfiguration{Verbosity: 2}, logsapi.LoggingOptions{ErrorStream: &out})
	log = log.WithName("launch").WithValues("nodeClaim", "default-x7k2p")
	log.Info("Launched", "instanceType", "m7g.large", "pod", klog.KRef("shop", "web"), "providerID", "aws:///us-east-1a/i-1")
	log.V(2).Info("Looked", "node", klog.KRef("", "ip-1"))
	log.V(3).Info("Hidden")
	log.Error(errors.New("no"), "Failed", "nodePool", "default")
	if err := control.SetVerbosityLevel(0); err != nil {
		t.Fatal(err)
	}
	log.V(1).Info("Hidden")
	claim := map[string]any{"name": "default-x7k2p"}
	want := []map[string]any{
		{
			"level": "INFO", "logger": "launch", "message": "Launched", "NodeClaim": claim, "instance-type": "m7g.large",
			"Pod": map[string]any{"name": "web", "namespace": "shop"}, "provider-id": "aws:///us-east-1a/i-1",
		},
		{"level": "DEBUG", "logger": "launch", "message": "Looked", "NodeClaim": claim, "Node": map[string]any{"name": "ip-1"}},
		{"level": "ERROR", "logger": "launch", "message": "Failed", "NodeClaim": claim, "NodePool": map[string]any{"name": "default"}, "error": "no"},
	}
	var got []map[string]any
	for line := range bytes.SplitSeq(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if _, err := time.Parse("2006-01-02T15:04:05.000Z0700", fields["time"].(string)); err != nil {
			t.Error(err)
		}
		delete(fields, "time")
		got = append(got, fields)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
