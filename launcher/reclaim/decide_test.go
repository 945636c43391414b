package reclaim_test

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/drain"
	"github.com/slipway-k8s/slipway/launcher/reclaim"
)

func epoch() time.Time { return time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) }

// TestDecide runs the files of testdata/decide:
//
//	decide now=D [after=D] [initialized=D] [last=D] [deleting] [protected[=D]] [replaces] [cordoned=BY]
//	POD [daemonset] [static] [terminating] [phase=PHASE]
//
//	blocked leaving=N allowed=N      whether the cluster or the pool keeps an empty node
//	budget nodes=N disrupted=N at=TIME
//	the NodePool's budgets as YAML
//
// Durations count from the beginning of the scenario; without after, consolidateAfter is Never.
func TestDecide(t *testing.T) {
	datadriven.Walk(t, "testdata/decide", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "decide":
				return decide(t, d)
			case "budget":
				return budget(t, d)
			case "blocked":
				var leaving, allowed int
				d.ScanArgs(t, "leaving", &leaving)
				d.ScanArgs(t, "allowed", &allowed)
				return cmp.Or(reclaim.Blocked(leaving, allowed, nil), "no") + "\n"
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func decide(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	f := parseFacts(t, d)
	for line := range strings.Lines(d.Input) {
		f.Pods = append(f.Pods, parsePod(t, line))
	}
	got := reclaim.Decide(f)
	out := fmt.Sprintf("%s: %s", got.Verdict, got.Reason)
	if !got.At.IsZero() {
		out += fmt.Sprintf("; again at %s", got.At.Sub(epoch()))
	}
	if got.Consolidatable {
		out += "; consolidatable"
	}
	return out + "\n"
}

func parseFacts(t *testing.T, d *datadriven.TestData) reclaim.Facts {
	t.Helper()
	f := reclaim.Facts{}
	for _, arg := range d.CmdArgs {
		value := ""
		if len(arg.Vals) > 0 {
			value = arg.Vals[0]
		}
		switch arg.Key {
		case "now":
			f.Now = epoch().Add(parse(t, value))
		case "after":
			after := parse(t, value)
			f.ConsolidateAfter = &after
		case "initialized":
			f.InitializedAt = epoch().Add(parse(t, value))
		case "last":
			f.LastPodEvent = epoch().Add(parse(t, value))
		case "deleting":
			f.Deleting = true
		case "protected":
			f.Protection = drain.Protection{Active: true}
			if value != "" {
				f.Protection.Until = epoch().Add(parse(t, value))
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

func budget(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	var nodes, disrupted int
	var at string
	d.ScanArgs(t, "nodes", &nodes)
	d.ScanArgs(t, "disrupted", &disrupted)
	d.ScanArgs(t, "at", &at)
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	pool := &karpv1.NodePool{}
	if err := yaml.UnmarshalStrict([]byte(d.Input), &pool.Spec.Disruption.Budgets); err != nil {
		t.Fatal(err)
	}
	allowed, err := reclaim.Allowed(pool, nodes, disrupted, now)
	if err != nil {
		return strconv.Itoa(allowed) + ", and an error\n"
	}
	return strconv.Itoa(allowed) + "\n"
}

func parse(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func parsePod(t *testing.T, line string) *corev1.Pod {
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
			pod.DeletionTimestamp = &metav1.Time{Time: epoch()}
		case "phase":
			pod.Status.Phase = corev1.PodPhase(value)
		default:
			t.Fatalf("unknown property %q of pod %s", f, fields[0])
		}
	}
	return pod
}
