package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// `slipway explain pod` prints each NodePool's reason once, not also in the condition and in each event.
func TestExplainSaysReasonsOnce(t *testing.T) {
	const reasons = "NodePool a: asks for 900 cpu; NodePools b, c: the pod does not tolerate their taint x"
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Message: "0/1 nodes are available: 1 Insufficient cpu. No node can be launched: " + reasons},
	}}}
	events := []corev1.Event{
		{Message: "the cluster has no node. No node can be launched: " + reasons},
		{Message: "0/2 nodes are available. No node can be launched: NodePool a: its limit is used up"},
		{Message: "Scaled up"},
	}
	short := brief(pod, events)
	got := []string{short.Status.Conditions[0].Message, events[0].Message, events[1].Message, events[2].Message}
	want := []string{
		"0/1 nodes are available: 1 Insufficient cpu. No node can be launched: see below.",
		"the cluster has no node. No node can be launched: see below.",
		"0/2 nodes are available. No node can be launched: NodePool a: its limit is used up",
		"Scaled up",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var out bytes.Buffer
	if !perPool(&out, pod) {
		t.Error("the reasons are not told")
	}
	told := `Why no node is launched for it:
  NodePool a: asks for 900 cpu
  NodePool b: the pod does not tolerate their taint x
  NodePool c: the pod does not tolerate their taint x
`
	if diff := cmp.Diff(told, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
