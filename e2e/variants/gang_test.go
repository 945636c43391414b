package variants_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// gangSpeed divides the delays in TestGang, and givenBack is how long a gang may keep an instance that it cannot use, in EC2's own time.
const (
	gangSpeed = 2
	givenBack = 2 * time.Minute
)

// member is a pod of gang g, which has four; labels select its node.
func member(name string, labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{"app": "gang", plan.LabelGang: "g", plan.KeyGangSize: "4"},
	}}
	pod.Spec = podSpec("300m")
	pod.Spec.NodeSelector = maps.Clone(labels)
	return pod
}

// A gang of four pods: two fit a node that exists, the third gets a new node, and EC2 has no capacity for the fourth one's. None of them is
// bound, the new node is given back within a minute of EC2's time, and the room on the node that exists is free for others. Once there is
// capacity all four run, and those on the node that exists were bound no earlier than the others' nodes were there.
func TestGang(t *testing.T) {
	l := newLab(t, sandbox.Config{Speed: gangSpeed, ManagedNodes: 1})
	l.AWS().ICE("m5.large", "all", "all", time.Hour)
	of := func(instanceType string) map[string]string {
		return map[string]string{corev1.LabelInstanceTypeStable: instanceType}
	}
	managed := map[string]string{corev1.LabelHostname: l.Recorder.Nodes()[0].Object.Labels[corev1.LabelHostname]}
	l.Create(member("here-0", managed), member("here-1", managed), member("new", of("m6i.large")), member("sold-out", of("m5.large")))

	l.Await("the NodeClaims of the gang to come and to be gone", func() bool {
		all := l.Recorder.Claims()
		return len(all) >= 2 && len(l.claims()) == 0 && l.says("new", "gang default/g runs with all 4 or none") && l.says("here-0", "gang default/g")
	})
	for _, p := range l.gang() {
		if p.Bound.Seen() {
			t.Errorf("pod %s was bound to %s while its gang could not run", p.Object.Name, p.Object.Spec.NodeName)
		}
	}
	l.gaveBack(t)
	// The room that the gang's pods wanted is free.
	other := l.deployment("other", 1, "1500m", func(s *corev1.PodSpec) { s.NodeSelector = maps.Clone(managed) })
	l.awaitRunning("other", 1)
	l.scale(other, 0)

	l.AWS().ClearICE()
	l.kill(sandbox.Launcher) // It would remember for minutes what was sold out.
	l.Await("the gang to run", func() bool { return len(l.pods("gang")) == 4 })
	l.boundTogether(t)
}

// gang lists the histories of the gang's pods.
func (l *lab) gang() []observe.Pod {
	return slices.DeleteFunc(l.Recorder.Pods(), func(p observe.Pod) bool { return p.Object.Labels["app"] != "gang" })
}

// says reports whether the pod's condition PodScheduled has the text.
func (l *lab) says(pod, text string) bool {
	for _, p := range l.Recorder.Pods() {
		for _, c := range p.Object.Status.Conditions {
			if p.Object.Name == pod && c.Type == corev1.PodScheduled && strings.Contains(c.Message, text) {
				return true
			}
		}
	}
	return false
}

// gaveBack holds that each NodeClaim was deleted soon after it was written, and that no instance of the gang is left.
func (l *lab) gaveBack(t *testing.T) {
	t.Helper()
	for _, c := range l.Recorder.Claims() {
		took := c.Deleted.At.Sub(c.Created.At) * gangSpeed
		t.Logf("NodeClaim %s, a %s, was there for %s of EC2's time", c.Object.Name, c.Expected.InstanceType, took.Round(time.Second))
		if took > givenBack {
			t.Errorf("NodeClaim %s was given back after %s of EC2's time, want %s at most", c.Object.Name, took, givenBack)
		}
	}
	l.Await("the instances to terminate", func() bool {
		return !slices.ContainsFunc(l.AWS().Instances(), func(i aws.Instance) bool { return i.Tags[karpv1.NodePoolLabelKey] != "" && i.Live() })
	})
}

// boundTogether holds that no pod of the gang was bound before every node of it was registered.
func (l *lab) boundTogether(t *testing.T) {
	t.Helper()
	var last observe.Moment
	for _, n := range l.Recorder.Nodes() {
		if !n.Deleted.Seen() && n.Created.Revision > last.Revision {
			last = n.Created
		}
	}
	for _, p := range l.gang() {
		if p.Bound.Before(last) {
			t.Errorf("pod %s was bound before the last node of its gang was there", p.Object.Name)
		}
	}
}
