package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// refusedPod returns a pod with the conditions of the refusal, and the refusal's text.
func refusedPod(t *testing.T) (pod *corev1.Pod, text string) {
	t.Helper()
	m := explain.Unplaced(plan.Unplaced{Reasons: []plan.Reason{
		{NodePool: "a", Code: "NoInstanceTypeFits", Message: "asks for 900 cpu; No node can be launched: elsewhere"},
		{NodePool: "b", Code: "TaintNotTolerated", Message: "the pod does not tolerate their taint x"},
		{NodePool: "c", Code: "TaintNotTolerated", Message: "the pod does not tolerate their taint x"},
	}}, "0/1 nodes are available: 1 Insufficient cpu.")
	reason, message, err := m.Refusal.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: m.String()},
		{Type: explain.NodeLaunchable, Status: corev1.ConditionFalse, Reason: reason, Message: message},
	}}}, m.Text()
}

// `slipway explain pod` prints each NodePool's reason once, not also in the condition and in each event.
func TestExplainPrintsReasonsOnce(t *testing.T) {
	pod, text := refusedPod(t)
	events := []corev1.Event{
		{Message: "The cluster has no node. N" + text[1:]},
		{Message: text},
		{Message: "0/2 nodes are available. No node can be launched: NodePool a: its limit is used up"},
		{Message: "Scaled up"},
	}
	short := brief(pod, events)
	got := []string{short.Status.Conditions[0].Message}
	for _, e := range events {
		got = append(got, e.Message)
	}
	want := []string{
		"0/1 nodes are available: 1 Insufficient cpu. No node can be launched: see below.",
		"The cluster has no node. No node can be launched: see below.",
		"No node can be launched: see below.",
		"0/2 nodes are available. No node can be launched: NodePool a: its limit is used up",
		"Scaled up",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var out bytes.Buffer
	if !perPool(&out, pod) {
		t.Error("the reasons are not printed")
	}
	printed := `Why no node is launched for it:
  NodePool a: asks for 900 cpu; No node can be launched: elsewhere
  NodePool b: the pod does not tolerate their taint x
  NodePool c: the pod does not tolerate their taint x
`
	if diff := cmp.Diff(printed, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is no refusal of NodePools stays whole: that a namespace sleeps, or that a gang is not complete.
func TestExplainKeepsOtherReasons(t *testing.T) {
	m := explain.GangWaits("default/g", 2, "0/1 nodes are available: 1 Insufficient cpu.")
	reason, message, err := m.Refusal.Encode()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: m.String()},
		{Type: explain.NodeLaunchable, Status: corev1.ConditionFalse, Reason: reason, Message: message},
	}}}
	if got := brief(pod, nil).Status.Conditions[0].Message; got != m.String() {
		t.Errorf("the condition's message is %q, want %q", got, m.String())
	}
}

// The name of the scheduler is above what slipway would plan: it may be forgotten in the pod.
func TestExplainNamesTheScheduler(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "default-scheduler"}}
	if got := ifPlanned(pod); !strings.Contains(got, "Its scheduler is default-scheduler: ") || !strings.Contains(got, "If it were planned now") {
		t.Errorf("the line is %q", got)
	}
}

// A pod without the typed condition, of an older scheduler, shows its message as it is.
func TestExplainWithoutTheCondition(t *testing.T) {
	pod, text := refusedPod(t)
	pod.Status.Conditions = pod.Status.Conditions[:1]
	events := []corev1.Event{{Message: text}}
	short := brief(pod, events)
	if got := short.Status.Conditions[0].Message; got != pod.Status.Conditions[0].Message || events[0].Message != text {
		t.Errorf("the condition's message is %q, the Event's %q", got, events[0].Message)
	}
	var out bytes.Buffer
	if perPool(&out, pod) {
		t.Errorf("printed %q", out.String())
	}
}

// What cannot be placed has the smallest edit that helps, with its price.
func TestExplainNamesTheSmallestEdit(t *testing.T) {
	file := write(t, "objects.yaml", objectsYAML)
	for _, args := range [][]string{{"explain", "-f", file}, {"explain", "-f", file, "pod", "default/huge"}} {
		out, _, err := slipway(t, "", args...)
		if err != nil || !strings.Contains(out, "The smallest edit that helps") || !strings.Contains(out, "Reduce the cpu request of container main from 1000 to 1") || !strings.Contains(out, " USD per hour more.") {
			t.Errorf("%v: %v:\n%s", args, err, out)
		}
	}
	if out, _, err := slipway(t, "", "explain", "-f", file, "pod", "default/web"); err != nil || strings.Contains(out, "edit") {
		t.Errorf("a pod that is placed: %v:\n%s", err, out)
	}
}
