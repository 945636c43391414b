package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Once the old pod has ended the scheduler has a moment to try the new one there, and then it gets a node.
func TestAwaitsRoom(t *testing.T) {
	p := newIdlePlanner(t, func([]catalog.PodRef) {})
	start := time.Now()
	old, fresh := ownedPod("old", "a", "n"), ownedPod("fresh", "a", "")
	old.DeletionTimestamp = &metav1.Time{Time: start}
	awaits := func(after time.Duration, e intake.Entry, there ...*corev1.Pod) bool {
		now := start.Add(after)
		from := pending.NewTerminating(now,
			func(intake.Controller) []*corev1.Pod { return there }, func(string) *corev1.Node { return &corev1.Node{} })
		return p.provisioner.candidates.awaitsRoom(t.Context(), from, e, fresh, now)
	}
	if awaits(0, intake.Entry{Pod: fresh, At: start}) {
		t.Error("nothing ends, and the pod waits")
	}
	for _, step := range []struct {
		after time.Duration
		there []*corev1.Pod
		want  bool
	}{
		{0, []*corev1.Pod{old}, true}, {4 * time.Second, []*corev1.Pod{old}, true}, {5 * time.Second, nil, true}, {6 * time.Second, nil, false},
	} {
		e := p.unplaced.Take(fresh.UID)
		if e.Pod == nil {
			e = intake.Entry{Pod: fresh, At: start}
		}
		if got := awaits(step.after, e, step.there...); got != step.want {
			t.Fatalf("after %s: the pod waits %v, want %v", step.after, got, step.want)
		}
		again := start.Add(step.after + time.Second)
		if step.want && (p.unplaced.Due(again.Add(-1)) != nil || p.unplaced.Due(again) == nil) {
			t.Errorf("after %s: it is not looked at again a second later", step.after)
		}
	}
}

// A pod for which a plan found nothing stays the same pod when its condition is written. The scheduler tries it again for each pod that ends
// somewhere, and it is not planned for that.
func TestAConditionMakesNoOtherPod(t *testing.T) {
	p, now := newIdlePlanner(t, func([]catalog.PodRef) {}), time.Now()
	pod := benchPod("a", "")
	written := pod.DeepCopy()
	written.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "full"}}
	other := written.DeepCopy()
	other.Labels = map[string]string{"app": "other"}
	for _, step := range []struct {
		name    string
		tried   *corev1.Pod
		planned bool
	}{{"with its condition", written, false}, {"again", written.DeepCopy(), false}, {"with other labels", other, true}} {
		e := asItIs(intake.Entry{Pod: pod, Class: plan.ClassKey(pod)}, written)
		e.Hopeless = true
		p.unplaced.Hold(e)
		p.collected.Add(intake.Entry{Pod: step.tried, At: now})
		p.take(now)
		if got := p.batch.Has(pod.UID); got != step.planned {
			t.Errorf("%s: the pod is planned: %t, want %t", step.name, got, step.planned)
		}
	}
}

// A pod for which a plan found nothing is planned again within a minute after the scheduler has tried it again, which kube-scheduler does every five
// minutes: the alert SlipwayPodsUnplaced depends on it.
func TestAnUnplacedPodIsPlannedAgain(t *testing.T) {
	p, now := newIdlePlanner(t, func([]catalog.PodRef) {}), time.Now()
	pod := benchPod("a", "")
	p.unplaced.Hold(intake.Entry{Pod: pod, Class: plan.ClassKey(pod), Hopeless: true})
	if p.unplaced.Due(now.Add(time.Hour)) != nil {
		t.Error("it is planned again without a reason")
	}
	p.collected.Add(intake.Entry{Pod: pod, At: now})
	p.take(now)
	if p.unplaced.Due(now.Add(time.Minute)) == nil || p.batch.Has(pod.UID) {
		t.Error("it is not planned again with the other held pods")
	}
}

// ownedPod is one of an owner's, on a node.
func ownedPod(name, owner, node string) *corev1.Pod {
	pod := benchPod(name, node)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	return pod
}
