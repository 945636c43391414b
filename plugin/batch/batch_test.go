package batch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/slipway-k8s/slipway/plugin/batch"
)

// TestBatch runs the scripts of testdata. The commands, each with at=DURATION since the start:
//
//	new [idle=D] [max=D] [gang=D]               a new batch
//	collect pod=UID [owner=UID] [gang=G] [waited] [namespace=N] [related] at=D
//	                                            a pod turned unschedulable
//	forget pod=UID at=D                         it is gone
//	owner uid=UID kind=K wanted=N existing=N [untried=N] [ordered] at=D
//	gang name=G wanted=N existing=N at=D
//	queue (drained|busy) at=D                   what the scheduling queue says
//	tick at=D                                   time passes
//	take [at=D]                                 the batch is planned
//
// All print the verdict.
func TestBatch(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		var b *batch.Batch
		start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			if d.Cmd == "new" {
				var err error
				if b, err = batch.New(batch.Config{
					Idle: duration(t, d, "idle"), Max: duration(t, d, "max"), GangTimeout: duration(t, d, "gang"),
				}); err != nil {
					return "error: " + err.Error()
				}
				return "ok"
			}
			now := start.Add(duration(t, d, "at"))
			if out := apply(t, b, d, now); out != "" {
				return out
			}
			return verdict(b.Check(now), start)
		})
	})
}

func apply(t *testing.T, b *batch.Batch, d *datadriven.TestData, now time.Time) string {
	t.Helper()
	switch d.Cmd {
	case "collect":
		b.Collect(batch.Pod{
			UID: text(t, d, "pod"), Owner: text(t, d, "owner"), Class: text(t, d, "class"), Gang: text(t, d, "gang"),
			Waited: d.HasArg("waited"), Namespace: text(t, d, "namespace"), Related: d.HasArg("related"),
		}, now)
	case "forget":
		b.Forget(text(t, d, "pod"))
	case "owner":
		o := batch.Owner{UID: text(t, d, "uid"), Kind: batch.KindOf(text(t, d, "kind")), OrderedReady: d.HasArg("ordered")}
		d.ScanArgs(t, "wanted", &o.Wanted)
		d.ScanArgs(t, "existing", &o.Existing)
		if d.HasArg("untried") {
			d.ScanArgs(t, "untried", &o.Untried)
		}
		b.SetOwner(o, now)
	case "gang":
		g := batch.Gang{Name: text(t, d, "name")}
		d.ScanArgs(t, "wanted", &g.Wanted)
		d.ScanArgs(t, "existing", &g.Existing)
		b.SetGang(g)
	case "queue":
		b.SetDrained(d.HasArg("drained"))
	case "tick":
	case "take":
		return "took " + strings.Join(b.Take(now), " ")
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return ""
}

func verdict(v batch.Verdict, start time.Time) string {
	switch {
	case v.Close:
		return "close: " + string(v.Reason)
	case v.Next.IsZero():
		return "empty"
	}
	return fmt.Sprintf("open, waits %s, until %s", v.Waiting, v.Next.Sub(start))
}

func duration(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	t.Helper()
	s := text(t, d, key)
	if s == "" {
		return 0
	}
	out, err := time.ParseDuration(s)
	if err != nil {
		d.Fatalf(t, "%s: %v", key, err)
	}
	return out
}

func text(t *testing.T, d *datadriven.TestData, key string) string {
	t.Helper()
	var s string
	if d.HasArg(key) {
		d.ScanArgs(t, key, &s)
	}
	return s
}
