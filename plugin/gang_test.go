package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

func inGang(size int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{plan.LabelGang: "g"}
		p.Annotations = map[string]string{plan.KeyGangSize: fmt.Sprint(size)}
	}
}

// A gang is launched for when its last pod has come, and holds no other pod back meanwhile.
func TestGangWaitsForItsPods(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)}, args: []string{"gangTimeout: 1h", "batchIdle: 1m", "batchMax: 2m"},
	})
	h.pod("g-0", inGang(3))
	h.pod("g-1", inGang(3))
	h.pod("alone", nil)
	h.eventually("the pod that is in no gang", func() bool { return h.launcher.podNames()["alone"] == 1 })
	h.eventually("the conditions of the gang's pods", func() bool { return strings.Contains(h.message("g-0"), "waits for 1 more pod of gang default/g") })
	if pods := h.launcher.podNames(); len(pods) != 1 {
		t.Fatalf("launched for %v", pods)
	}
	h.pod("g-2", inGang(3))
	h.eventually("the gang", func() bool { return len(h.launcher.podNames()) == 4 })
	if requests := h.launcher.requests(); len(requests) != 2 {
		t.Errorf("%d batches: %v", len(requests), requests)
	}
}

// What a gang lacks is reported anew with each pod that comes.
func TestGangCountsDown(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)}, args: []string{"gangTimeout: 1h", "batchIdle: 1h", "batchMax: 2h"},
	})
	h.pod("g-0", inGang(3))
	h.eventually("that two are missing", func() bool { return strings.Contains(h.message("g-0"), "waits for 2 more pods of gang default/g") })
	h.pod("g-1", inGang(3))
	h.eventually("that one is missing", func() bool { return strings.Contains(h.message("g-0"), "waits for 1 more pod of gang default/g") })
}

// A gang that stays incomplete says so, and is planned as soon as what it lacks has come.
func TestGangThatComesLate(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)}, args: []string{"gangTimeout: 50ms", "batchIdle: 50ms"},
	})
	h.pod("g-0", inGang(2))
	h.eventually("the pod's condition", func() bool { return strings.Contains(h.message("g-0"), "waits for its pods: 1 of 2") })
	h.pod("g-1", inGang(2))
	h.eventually("the gang", func() bool { return len(h.launcher.podNames()) == 2 })
	if requests := h.launcher.requests(); len(requests) != 1 {
		t.Errorf("%d batches: %v", len(requests), requests)
	}
}

// Pods of a gang that fit a node that exists are bound when the last of them has come, and not before. What waits too long gives its room
// back, and takes it again when the gang is complete.
func TestGangIsBoundTogether(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]string{"in time": "1h", "too late": "3s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{
				objects: []runtime.Object{newNode("free", "1700m", nil)}, args: []string{"gangTimeout: " + timeout, "batchIdle: 50ms"},
			})
			h.pod("g-0", inGang(3))
			h.pod("g-1", inGang(3))
			if timeout == "1h" {
				h.eventually("both pods to wait", func() bool { return h.waiting() == 2 })
			} else {
				h.eventually("the pods to give their room back", func() bool {
					return h.waiting() == 0 && strings.Contains(h.message("g-0")+h.message("g-1"), "gang default/g waits for its pods: 2 of 3")
				})
			}
			if n := h.bound(); n != 0 {
				t.Fatalf("%d pods of an incomplete gang are bound", n)
			}
			h.pod("g-2", inGang(3))
			h.eventually("the gang to be bound", func() bool { return h.bound() == 3 })
			if launched := h.launcher.podNames(); len(launched) != 0 {
				t.Errorf("launched for %v, which fit a node that exists", launched)
			}
		})
	}
}

// A nomination that the scheduler has left on a pod of an incomplete gang keeps its room from no other pod: the API server showed it only
// after the pod was rejected at Permit.
func TestGangLeavesNoNomination(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("free", "1700m", nil)}, args: []string{"gangTimeout: 300ms", "batchIdle: 50ms"},
	})
	h.pod("g-0", inGang(3))
	h.eventually("the pod to give its room back", func() bool {
		return h.waiting() == 0 && strings.Contains(h.message("g-0"), "gang default/g waits for its pods: 1 of 3")
	})
	pods := h.client.CoreV1().Pods("default")
	pod, err := pods.Get(t.Context(), "g-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.NominatedNodeName = "free"
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.pod("other", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1500m")
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "free"}
	})
	h.eventually("the nomination to be gone", func() bool {
		pod, err := pods.Get(t.Context(), "g-0", metav1.GetOptions{})
		return err == nil && pod.Status.NominatedNodeName == ""
	})
	h.eventually("the other pod to be bound", func() bool { return h.bound() == 1 })
}

// jobOf returns a Job that runs its pods at the same time, of which some have succeeded.
func jobOf(name string, pods, succeeded int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("job-" + name)},
		Spec:       batchv1.JobSpec{Parallelism: new(pods), Completions: new(pods)},
		Status:     batchv1.JobStatus{Succeeded: succeeded},
	}
}

// inJob makes the pod one of a gang of two and of a Job.
func inJob(job string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		inGang(2)(p)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID("job-" + job), Controller: new(true)}}
	}
}

// A pod that takes the place of a failed one runs beside those that have succeeded: it is bound to a node that exists, or one is launched.
func TestGangWithPodsThatHaveEnded(t *testing.T) {
	t.Parallel()
	for name, cpu := range map[string]string{"fits a node": "1700m", "fits no node": "100m"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := newPod("g-0", "500m", "512Mi")
			inJob("train")(done)
			done.Spec.NodeName, done.Status.Phase = "free", corev1.PodSucceeded
			h := start(t, harnessOptions{objects: []runtime.Object{newNode("free", cpu, nil), done, jobOf("train", 2, 1)}})
			h.pod("g-1", inJob("train"))
			h.eventually("the pod to be bound or launched for", func() bool { return h.bound() == 2 || h.launcher.podNames()["g-1"] == 1 })
			if cpu == "1700m" && h.bound() != 2 {
				t.Errorf("launched for %v, which fits a node that exists", h.launcher.podNames())
			}
		})
	}
}

// The pods of a Job's earlier run do not complete the gang of the next one.
func TestGangOfTheNextRun(t *testing.T) {
	t.Parallel()
	done := newPod("g-0", "500m", "512Mi")
	inJob("nightly-1")(done)
	done.Spec.NodeName, done.Status.Phase = "free", corev1.PodSucceeded
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("free", "1700m", nil), done, jobOf("nightly-1", 2, 2), jobOf("nightly-2", 2, 0)},
		args:    []string{"gangTimeout: 300ms", "batchIdle: 50ms"},
	})
	h.pod("h-0", inJob("nightly-2"))
	h.eventually("the pod's condition", func() bool { return strings.Contains(h.message("h-0"), "waits for its pods: 1 of 2") })
	if n := h.bound(); n != 1 {
		t.Errorf("%d pods have a node, want the one that has succeeded alone", n)
	}
}

// waiting counts the pods that wait at Permit.
func (h *harness) waiting() int {
	n := 0
	h.sched.Profiles["slipway"].IterateOverWaitingPods(func(fwk.WaitingPod) { n++ })
	return n
}

// Pods of a scheduling group are the scheduler's to bind: it holds them until enough have a node.
func TestPodsOfASchedulingGroupAreNotBoundAhead(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	h.pod("grouped", func(p *corev1.Pod) {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("training")}
	})
	h.pod("plain", nil)
	h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 2 })
	for _, claim := range h.launcher.claims() {
		for _, pod := range claim.GetPods() {
			if only := pod.GetSchedulerOnly(); (only != "") != (pod.GetName() == "grouped") {
				t.Errorf("pod %s: only the scheduler binds it: %q", pod.GetName(), only)
			}
		}
	}
}
