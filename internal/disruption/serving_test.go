package disruption_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// servingPod is a pod of a set of that kind, Ready or not since a time.
func servingPod(name, kind string, ready bool, since time.Time) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(epoch())}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "set", UID: "set", Controller: new(true)}}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(since)}}
	return pod
}

// What counts as away: a pod that is not Ready yet, one of a StatefulSet until it has ended, and one that was evicted and has no replacement yet.
func TestServingOf(t *testing.T) {
	now := epoch().Add(time.Hour)
	ready := servingPod("ready", "ReplicaSet", true, epoch())
	young := servingPod("young", "ReplicaSet", false, now.Add(-time.Minute))
	broken := servingPod("broken", "ReplicaSet", false, now.Add(-10*time.Minute))
	failed := servingPod("failed", "ReplicaSet", false, now)
	failed.Status.Phase = corev1.PodFailed
	unseen := servingPod("unseen", "ReplicaSet", true, epoch())
	unseen.Status.Conditions = nil
	unseen.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
	ending, endingOfSet := servingPod("ending", "ReplicaSet", true, epoch()), servingPod("ending", "StatefulSet", true, epoch())
	replacement := servingPod("replacement", "ReplicaSet", true, now)
	replacement.CreationTimestamp = metav1.NewTime(now.Add(-9 * time.Second).Truncate(time.Second))
	ending.DeletionTimestamp, endingOfSet.DeletionTimestamp = &metav1.Time{Time: now}, &metav1.Time{Time: now}

	for _, c := range []struct {
		pods    []corev1.Pod
		evicted map[types.UID]time.Time
		want    disruption.Serving
	}{
		{pods: []corev1.Pod{ready, young, broken, failed, unseen}, want: disruption.Serving{Pods: 4, Away: 2}},
		{pods: []corev1.Pod{ready, ending}, want: disruption.Serving{Pods: 1}},
		{pods: []corev1.Pod{ready, endingOfSet}, want: disruption.Serving{Pods: 2, Away: 1}},
		{pods: []corev1.Pod{ready}, evicted: map[types.UID]time.Time{"gone": now.Add(-time.Second)}, want: disruption.Serving{Pods: 2, Away: 1}},
		{pods: []corev1.Pod{ready}, evicted: map[types.UID]time.Time{"ready": now}, want: disruption.Serving{Pods: 1, Away: 1}},
		{pods: []corev1.Pod{ready, ending}, evicted: map[types.UID]time.Time{"ending": now.Add(-time.Minute)}, want: disruption.Serving{Pods: 1}},
		{pods: []corev1.Pod{ready, ending}, evicted: map[types.UID]time.Time{"ending": now.Add(-20 * time.Second)}, want: disruption.Serving{Pods: 2, Away: 1}},
		{pods: []corev1.Pod{ready, ending, replacement}, evicted: map[types.UID]time.Time{"ending": now.Add(-9 * time.Second)}, want: disruption.Serving{Pods: 2}},
		{
			pods:    []corev1.Pod{ready, replacement},
			evicted: map[types.UID]time.Time{"first": now.Add(-10 * time.Second), "second": now.Add(-9 * time.Second)},
			want:    disruption.Serving{Pods: 3, Away: 1},
		},
		{pods: []corev1.Pod{replacement}, evicted: map[types.UID]time.Time{"later": now.Add(-7 * time.Second)}, want: disruption.Serving{Pods: 2, Away: 1}},
	} {
		var pods []*corev1.Pod
		for i := range c.pods {
			pods = append(pods, &c.pods[i])
		}
		if got := disruption.ServingOf(pods, c.evicted, now); got != c.want {
			t.Errorf("of %d pods, evicted %v: %+v, want %+v", len(c.pods), c.evicted, got, c.want)
		}
	}
}

// A tenth may be away, and one of a few.
func TestSpares(t *testing.T) {
	for _, c := range []struct {
		pods, away int
		want       bool
	}{{1, 0, true}, {1, 1, false}, {19, 0, true}, {19, 1, false}, {20, 1, true}, {20, 2, false}, {300, 29, true}, {300, 30, false}} {
		if got := (disruption.Serving{Pods: c.pods, Away: c.away}).Spares(); got != c.want {
			t.Errorf("%d of %d pods away: another one may go %t, want %t", c.away, c.pods, got, c.want)
		}
	}
}

// Pods that are evicted as they come: not Ready, without a controller, of a DaemonSet, of a Job.
func TestServingOwner(t *testing.T) {
	ready := servingPod("ready", "ReplicaSet", true, epoch())
	daemon := servingPod("daemon", "DaemonSet", true, epoch())
	booting := servingPod("booting", "ReplicaSet", false, epoch())
	job := servingPod("job", "Job", true, epoch())
	job.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	bare := servingPod("bare", "ReplicaSet", true, epoch())
	bare.OwnerReferences = nil
	got := ""
	for _, pod := range []corev1.Pod{ready, daemon, booting, job, bare} {
		if owner := disruption.ServingOwner(&pod); owner != nil {
			got += fmt.Sprintln(pod.Name, owner.Kind, owner.Name)
		}
	}
	if want := "ready ReplicaSet set\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
