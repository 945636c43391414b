package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// conditioned returns a pod with the condition of the message.
func conditioned(t *testing.T, m explain.Message) *corev1.Pod {
	t.Helper()
	reason, message, err := m.Refusal.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: m.String()},
		{Type: explain.NodeLaunchable, Status: corev1.ConditionFalse, Reason: reason, Message: message},
	}}}
}

const verdict = "0/3 nodes are available: 3 Insufficient cpu."

// What is written on a pod is read back as it was, with its code.
func TestRefusalRoundTrip(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	taint := plan.Reason{Code: "TaintNotTolerated", Message: `taint x: "not" <tolerated>; NodePool z: no`}
	at1, at2 := taint, taint
	at1.NodePool, at2.NodePool = "b", "c"
	var many []plan.Reason
	for i := range 50 {
		many = append(many, plan.Reason{NodePool: fmt.Sprint("p", i), Code: "LimitExceeded", Message: fmt.Sprint("reason ", i)})
	}
	for code, m := range map[string]explain.Message{
		"TaintNotTolerated": explain.Unplaced(plan.Unplaced{Reasons: []plan.Reason{at1, at2}}, verdict),
		explain.CodeNoNodePoolFits: explain.Unplaced(plan.Unplaced{Reasons: []plan.Reason{
			{NodePool: "a", Code: "NoInstanceTypeFits", Message: "no type fits: largest has 96 of 128 cores; and that is all"}, at1, at2,
		}}, verdict),
		"NotReady":                       explain.Unplaced(plan.Unplaced{}, ""),
		"LimitExceeded":                  explain.Unplaced(plan.Unplaced{Reasons: many}, verdict),
		explain.CodeAwaitsGang:           explain.GangWaits("default/g", 2, verdict),
		explain.CodeNotLaunchable:        explain.NotLaunchable("it names its node", verdict),
		explain.CodeAwaitsTerminatingPod: explain.AwaitsRoom("default/old", "n"),
		explain.CodeLauncherUnreachable:  explain.Unreachable("/s", at, verdict),
		explain.CodeVersionMismatch:      explain.Incompatible("2.0", "1.0", verdict),
		explain.CodePlanningFailed:       explain.SetAside("boom", at),
		explain.CodeLaunchDelayed:        explain.Delayed("default-1", "Insufficient cpu", at, verdict),
	} {
		pod := conditioned(t, m)
		got, ok := explain.Read(pod)
		if diff := cmp.Diff(m.Refusal, got); !ok || got.Code != code || diff != "" {
			t.Errorf("%s: read %t, -want +got:\n%s", code, ok, diff)
		}
		if before, ok := got.CutFrom(pod.Status.Conditions[0].Message); !ok || before != m.Verdict {
			t.Errorf("%s: %q before the refusal in %q", code, before, pod.Status.Conditions[0].Message)
		}
	}
}

// A message has a bounded number of reasons and the condition a bounded number of bytes; both count what is left out.
func TestRefusalIsBounded(t *testing.T) {
	var reasons []plan.Reason
	for i := range 50 {
		reasons = append(reasons, plan.Reason{NodePool: fmt.Sprint("p", i), Message: strings.Repeat(fmt.Sprint("long reason ", i), 100)})
	}
	m := explain.Unplaced(plan.Unplaced{Reasons: reasons}, "")
	if !strings.HasSuffix(m.String(), "; and 30 reasons more") {
		t.Errorf("message %q", m)
	}
	pod := conditioned(t, m)
	if n := len(pod.Status.Conditions[1].Message); n > 8<<10 {
		t.Errorf("the condition's message has %d bytes", n)
	}
	got, ok := explain.Read(pod)
	if !ok || len(got.Reasons) == 0 || len(got.Reasons)+got.More != 50 || got.Reasons[0].NodePools[0] != "p0" {
		t.Errorf("read %t: %d reasons and %d more of 50", ok, len(got.Reasons), got.More)
	}
}

// A condition that cannot be read, or that holds no more, is none: the message of PodScheduled is all that is known.
func TestUnreadRefusals(t *testing.T) {
	m := explain.NotLaunchable("it names its node", verdict)
	for name, change := range map[string]func(*corev1.Pod){
		"of an older version": func(p *corev1.Pod) { p.Status.Conditions = p.Status.Conditions[:1] },
		"not JSON":            func(p *corev1.Pod) { p.Status.Conditions[1].Message = "it names its node" },
		"without a reason":    func(p *corev1.Pod) { p.Status.Conditions[1].Message = `{"more":3}` },
		"true":                func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionTrue },
		"bound meanwhile":     func(p *corev1.Pod) { p.Spec.NodeName = "n" },
	} {
		pod := conditioned(t, m)
		change(pod)
		if got, ok := explain.Read(pod); ok {
			t.Errorf("%s: read %+v", name, got)
		}
	}
	if before, ok := m.Refusal.CutFrom("launching m7g.large"); ok {
		t.Errorf("a launch is no refusal: cut to %q", before)
	}
	if _, ok := (explain.Refusal{}).CutFrom("launching m7g.large"); ok {
		t.Error("the zero Refusal ends every message")
	}
}
