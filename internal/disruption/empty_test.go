package disruption_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

func monday() time.Time { return time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) }

// TestDecideEmpty runs the files of testdata/empty:
//
//	decide now=D [after=D] [initialized=D] [last=D] [deleting] [protected[=D]] [replaces] [cordoned=BY]
//	POD [daemonset] [static] [terminating] [phase=PHASE]
//
// Durations count from the beginning of the scenario; without after, consolidateAfter is Never.
func TestDecideEmpty(t *testing.T) {
	datadriven.Walk(t, "testdata/empty", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			if d.Cmd != "decide" {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return decideEmpty(t, d)
		})
	})
}

func decideEmpty(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	f := parseFacts(t, d)
	for line := range strings.Lines(d.Input) {
		f.Pods = append(f.Pods, emptyPod(t, line))
	}
	got := disruption.DecideEmpty(f)
	out := fmt.Sprintf("%s: %s", got.Verdict, got.Reason)
	if !got.At.IsZero() {
		out += fmt.Sprintf("; again at %s", got.At.Sub(monday()))
	}
	if got.Consolidatable {
		out += "; consolidatable"
	}
	return out + "\n"
}

func parseFacts(t *testing.T, d *datadriven.TestData) disruption.EmptyFacts {
	t.Helper()
	f := disruption.EmptyFacts{}
	for _, arg := range d.CmdArgs {
		value := ""
		if len(arg.Vals) > 0 {
			value = arg.Vals[0]
		}
		switch arg.Key {
		case "now":
			f.Now = monday().Add(duration(t, value))
		case "after":
			after := duration(t, value)
			f.ConsolidateAfter = &after
		case "initialized":
			f.InitializedAt = monday().Add(duration(t, value))
		case "last":
			f.LastPodEvent = monday().Add(duration(t, value))
		case "deleting":
			f.Deleting = true
		case "protected":
			f.Protection = disruption.Protection{Active: true}
			if value != "" {
				f.Protection.Until = monday().Add(duration(t, value))
			}
		case "replaces":
			f.Replaces = true
		case "cordoned":
			f.CordonedBy = value
		default:
			d.Fatalf(t, "unknown argument %s", arg.Key)
		}
	}
	return f
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func emptyPod(t *testing.T, line string) *corev1.Pod {
	t.Helper()
	fields := strings.Fields(line)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fields[0]}}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "daemonset":
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
		case "static":
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node"}}
		case "terminating":
			pod.DeletionTimestamp = &metav1.Time{Time: monday()}
		case "phase":
			pod.Status.Phase = corev1.PodPhase(value)
		default:
			t.Fatalf("unknown property %q of pod %s", f, fields[0])
		}
	}
	return pod
}
