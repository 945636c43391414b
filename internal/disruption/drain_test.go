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

func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// TestDecideDrain runs the files of testdata/drain, with these commands:
//
//	drain now=DURATION [deadline=DURATION]              what to do about the pods
//	moving now=DURATION [deadline=DURATION] [ending]    which of them need room elsewhere
//	POD [daemonset] [static] [bare] [critical] [tolerates=exists|key] [do-not-disrupt=V] [do-not-evict=V] [started=D]
//	    [grace=SECONDS] [terminating=D] [phase=P]
//
// Durations count from the beginning of the scenario; terminating is the pod's deletion timestamp, grace included.
func TestDecideDrain(t *testing.T) {
	datadriven.Walk(t, "testdata/drain", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			in, instanceEnds := disruption.DrainFacts{}, false
			for _, arg := range d.CmdArgs {
				switch arg.Key {
				case "now":
					in.Now = at(t, arg.Vals[0])
				case "deadline":
					in.Deadline = at(t, arg.Vals[0])
				case "ending":
					instanceEnds = true
				default:
					d.Fatalf(t, "unknown argument %s", arg.Key)
				}
			}
			for line := range strings.Lines(d.Input) {
				in.Pods = append(in.Pods, parsePod(t, line))
			}
			if d.Cmd == "moving" {
				return moving(disruption.DisplacedPods(in, instanceEnds))
			}
			return render(disruption.DecideDrain(in))
		})
	})
}

func moving(pods []*corev1.Pod) string {
	names := make([]string, 0, len(pods))
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return strings.Join(names, " ") + "\n"
}

func render(p disruption.DrainPlan) string {
	var b strings.Builder
	list := func(what string, pods []*corev1.Pod) {
		for _, pod := range pods {
			fmt.Fprintf(&b, "%s %s\n", what, pod.Name)
		}
	}
	list("evict", p.Evict)
	for _, d := range p.Delete {
		fmt.Fprintf(&b, "delete %s grace=%ds\n", d.Pod.Name, d.GraceSeconds)
	}
	list("protected", p.Protected)
	list("invalid", p.Invalid)
	fmt.Fprintf(&b, "waiting %d done %t\n", p.Waiting, p.Done)
	return b.String()
}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return epoch().Add(d)
}

func parsePod(t *testing.T, line string) *corev1.Pod {
	t.Helper()
	fields := strings.Fields(line)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fields[0], Annotations: map[string]string{}}}
	owner := func(apiVersion, kind string) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Controller: new(true)}}
	}
	owner("apps/v1", "ReplicaSet")
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "daemonset":
			owner("apps/v1", "DaemonSet")
		case "bare":
			pod.OwnerReferences = nil
		case "static":
			owner("v1", "Node")
		case "critical":
			pod.Spec.PriorityClassName = "system-node-critical"
		case "tolerates":
			pod.Spec.Tolerations = map[string][]corev1.Toleration{
				"exists":   {{Operator: corev1.TolerationOpExists}},
				"key":      {{Key: "karpenter.sh/disrupted", Operator: corev1.TolerationOpExists}},
				"equal":    {{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}},
				"noexec":   {{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
				"otherval": {{Key: "karpenter.sh/disrupted", Value: "x"}},
			}[value]
		case "do-not-disrupt", "do-not-evict":
			pod.Annotations["karpenter.sh/"+key] = value
		case "started":
			pod.Status.StartTime = &metav1.Time{Time: at(t, value)}
		case "grace":
			var n int64
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
			pod.Spec.TerminationGracePeriodSeconds = &n
		case "terminating":
			pod.DeletionTimestamp = &metav1.Time{Time: at(t, value)}
		case "phase":
			pod.Status.Phase = corev1.PodPhase(value)
		default:
			t.Fatalf("unknown property %q of pod %s", f, fields[0])
		}
	}
	return pod
}
