package view_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// after returns the time so many seconds after pods were created.
func after(seconds int) metav1.Time {
	return metav1.NewTime(created().Add(time.Duration(seconds) * time.Second))
}

// launched is a NodeClaim that was written one second after the pods were created, and its node.
func launched() (*karpv1.NodeClaim, *corev1.Node) {
	c := claim("default-a", "n1", karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized)
	c.CreationTimestamp, c.Status.ProviderID = after(1), "aws:///us-east-1a/i-0123"
	for i := range c.Status.Conditions {
		switch t := &c.Status.Conditions[i]; t.Type {
		case karpv1.ConditionTypeLaunched:
			t.LastTransitionTime = after(2)
		case karpv1.ConditionTypeRegistered:
			t.LastTransitionTime = after(30)
		case karpv1.ConditionTypeInitialized:
			t.LastTransitionTime = after(41)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: after(40)}}
	return c, node
}

// ran is a pod that was bound before its node joined, and runs.
func ran() *corev1.Pod {
	p := pod("web-1", "u1", "n1", corev1.PodRunning)
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: after(46)},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: after(3)},
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: after(40)},
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: after(45)}}},
		{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: after(44)}}},
	}
	return p
}

// steps writes moments as "+seconds what".
func steps(moments []view.Moment) string {
	var out []string
	for _, m := range moments {
		out = append(out, m.At.Sub(created()).String()+" "+m.What)
	}
	return strings.Join(out, ", ")
}

// The moments of a pod are in order of time, and those of one second in the order in which they come.
func TestPodTimeline(t *testing.T) {
	c, node := launched()
	old, _ := launched()
	old.CreationTimestamp = after(-600)
	for i := range old.Status.Conditions {
		old.Status.Conditions[i].LastTransitionTime = after(-500)
	}
	starting := ran()
	starting.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	starting.Status.Conditions = starting.Status.Conditions[1:]
	waits := pod("web-3", "u3", "", corev1.PodPending)
	waits.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: after(2)}}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		claim *karpv1.NodeClaim
		node  *corev1.Node
		want  string
	}{
		{"a new node", ran(), c, node, "0s created, 1s node planned, 2s node launched, 3s bound, 30s node joined, 40s node ready, 40s network ready, " +
			"41s node initialized, 45s containers started, 46s ready"},
		{"a container has not started", starting, c, node, "0s created, 1s node planned, 2s node launched, 3s bound, 30s node joined, 40s node ready, " +
			"40s network ready, 41s node initialized"},
		{"a node that was there", ran(), old, nil, "0s created, 3s bound, 40s network ready, 45s containers started, 46s ready"},
		{"no node", pod("web-2", "u2", "", corev1.PodPending), nil, nil, "0s created"},
		{"no node that fits", waits, nil, nil, "0s created, 2s fits no node"},
	} {
		if got := steps(view.PodTimeline(tt.pod, tt.claim, tt.node, nil)); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// The end of a node has its reason, and reading changes no object.
func TestNodeTimeline(t *testing.T) {
	c, node := launched()
	deleted := after(900)
	c.DeletionTimestamp = &deleted
	c.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, "Underutilized", "Underutilized")
	before := c.DeepCopy()
	moments := view.NodeTimeline(c, node)
	const want = "1s planned, 2s launched, 30s joined, 40s ready, 41s initialized, 15m0s terminating"
	if got := steps(moments); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if last := moments[len(moments)-1]; last.Detail != "Underutilized" {
		t.Errorf("the last moment is %+v, want the reason", last)
	}
	if len(before.Status.Conditions) != len(c.Status.Conditions) {
		t.Error("conditions were added to the NodeClaim")
	}
}

// A node is found by its name and by that of its NodeClaim; a name that slipway does not know is an error that says so.
func TestExplainNode(t *testing.T) {
	c, node := launched()
	in := view.Objects{
		NodeClaims: []*karpv1.NodeClaim{c}, Nodes: []*corev1.Node{node, {ObjectMeta: metav1.ObjectMeta{Name: "managed"}}}, Pods: []*corev1.Pod{ran()},
		Now: created().Add(time.Minute),
	}
	for _, name := range []string{"n1", "default-a"} {
		var out bytes.Buffer
		if err := view.ExplainNode(&out, name, in); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"Node n1: ready", "requested by 1 pod\n", "NodeClaim default-a: ready", "m7g.large, spot in us-east-1a, 0.0300 USD per hour",
			"Since 2026-01-01T00:00:01Z:\n       +0s  planned: m7g.large, spot in us-east-1a", "      +29s  joined: n1\n",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: lacks %q:\n%s", name, want, out.String())
			}
		}
	}
	theirs := c.DeepCopy()
	theirs.Name, theirs.Status.NodeName = "theirs", "auto"
	theirs.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}
	in.NodeClaims, in.Nodes = append(in.NodeClaims, theirs), append(in.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "auto"}})
	for name, want := range map[string]string{"managed": "slipway does not manage it", "auto": "slipway does not manage it", "theirs": "slipway does not manage it", "none": "no NodeClaim and no node has this name"} {
		if err := view.ExplainNode(&bytes.Buffer{}, name, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", name, err, want)
		}
	}
}
