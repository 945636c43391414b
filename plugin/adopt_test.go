package plugin_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

const theirVerdict = "0/1 nodes are available: 1 Insufficient cpu."

// theirs makes a pod another scheduler's, which has found no node for it.
func theirs(p *corev1.Pod) {
	ownedBy("web")(p)
	p.Spec.SchedulerName = "default-scheduler"
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: theirVerdict,
	}}
}

// adopting is a scheduler that adopts pods, beside the objects.
func adopting(t *testing.T, objects ...runtime.Object) *harness {
	t.Helper()
	return start(t, harnessOptions{
		args:    []string{"batchIdle: 100ms", "batchMax: 2m", "adopt: [default-scheduler]"},
		objects: append(objects, newNode("full", "100m", nil)),
	})
}

func (h *harness) get(name string) *corev1.Pod {
	h.t.Helper()
	pod, err := h.client.CoreV1().Pods("default").Get(h.ctx, name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return pod
}

// Pods of another scheduler get nodes once it has found none: they are nominated to the claim, then to its node, again where their
// scheduler clears it, and their conditions stay its word. They are never bound by this scheduler.
func TestAdoptedPods(t *testing.T) {
	t.Parallel()
	h := adopting(t)
	h.replicaSet("web", 2)
	h.pod("web-0", theirs)
	h.pod("web-1", theirs)
	h.pod("untried", func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" })
	h.pod("nobodys", func(p *corev1.Pod) { theirs(p); p.Spec.SchedulerName = "other" })
	h.pod("preempts", func(p *corev1.Pod) { theirs(p); p.Status.NominatedNodeName = "full" })
	h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 2 })
	for pod, n := range h.launcher.podNames() {
		if !strings.HasPrefix(pod, "web-") || n != 1 {
			t.Errorf("pod %s was sent %d times", pod, n)
		}
	}
	for _, p := range h.launcher.claims()[0].GetPods() {
		if !p.GetAdopted() {
			t.Errorf("the launcher is not informed that pod %s is another scheduler's", p.GetName())
		}
	}
	claim := h.launcher.claims()[0].GetName()
	h.eventually("the pods to be nominated to the claim", func() bool {
		return h.get("web-0").Status.NominatedNodeName == claim && h.get("web-1").Status.NominatedNodeName == claim
	})
	h.launcher.mu.Lock()
	old := h.launcher.inFlight[claim]
	named := &api.InFlightNode{
		NodeClaim: claim, NodeName: "ip-1", NodePool: old.GetNodePool(), Phase: old.GetPhase(), Pods: old.GetPods(), Labels: old.GetLabels(),
		Allocatable: old.GetAllocatable(), InstanceType: old.GetInstanceType(), Zone: old.GetZone(), CapacityType: old.GetCapacityType(),
	}
	h.launcher.inFlight[claim] = named
	h.launcher.publish(func() *api.CatalogUpdate { return &api.CatalogUpdate{InFlight: []*api.InFlightNode{named}} })
	h.launcher.mu.Unlock()
	h.eventually("the pods to be nominated to the node", func() bool { return h.get("web-0").Status.NominatedNodeName == "ip-1" })
	cleared := h.get("web-0")
	cleared.Status.NominatedNodeName = ""
	if _, err := h.client.CoreV1().Pods("default").UpdateStatus(h.ctx, cleared, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the nomination to come back", func() bool { return h.get("web-0").Status.NominatedNodeName == "ip-1" })
	if got := h.message("web-0"); got != theirVerdict {
		t.Errorf("the condition says %q", got)
	}
	if n := h.bound(); n > 0 {
		t.Errorf("%d pods were bound", n)
	}
	if names := h.launcher.podNames(); len(names) != 2 {
		t.Errorf("sent were %v", names)
	}
}

// When the launch fails they are planned again; when another takes them, their promise ends.
func TestAdoptedPodsArePlannedAgain(t *testing.T) {
	t.Parallel()
	h := adopting(t)
	h.replicaSet("web", 1)
	h.pod("web-0", theirs)
	h.eventually("a launch", func() bool { return h.launcher.podNames()["web-0"] == 1 })
	claim := h.launcher.claims()[0].GetName()
	h.eventually("a nomination", func() bool { return h.get("web-0").Status.NominatedNodeName == claim })
	h.launcher.end(claim, "", api.Outcome_OUTCOME_FAILED)
	h.eventually("another launch", func() bool { return h.launcher.podNames()["web-0"] == 2 })
	h.eventually("the promise", func() bool { return h.metric("slipway_promised_pods", "") == 1 })
	pod := h.get("web-0")
	pod.Spec.NodeName = "theirs"
	if _, err := h.client.CoreV1().Pods("default").Update(h.ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the promise to end", func() bool { return h.metric("slipway_promised_pods", "") == 0 })
}

// An adopted pod that no plan could place is planned again when its scheduler finds something new: its volume is bound.
func TestAdoptedPodWhoseVolumeIsBound(t *testing.T) {
	t.Parallel()
	unbound := claim()
	unbound.Annotations, unbound.Spec.VolumeName, unbound.Spec.StorageClassName = nil, "", new("fast")
	unbound.Status.Phase = corev1.ClaimPending
	h := adopting(t, disk(), unbound, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "ebs.csi.aws.com"}}, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	})
	h.pod("db", func(p *corev1.Pod) {
		theirs(p)
		p.OwnerReferences = nil
		p.Status.Conditions[0].Message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	})
	h.eventually("a plan that finds nothing", func() bool { return h.metric("slipway_planned_pods_total", "unplaced") > 0 })
	bound := claim()
	bound.Spec.StorageClassName = new("fast")
	if _, err := h.client.CoreV1().PersistentVolumeClaims("default").Update(h.ctx, bound, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	claims := h.informer.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims("default")
	h.eventually("the claim to be seen bound", func() bool {
		seen, err := claims.Get("data")
		return err == nil && seen.Spec.VolumeName == "disk"
	})
	pod := h.get("db")
	pod.ResourceVersion, pod.Status.Conditions[0].Message = "2", theirVerdict
	if _, err := h.client.CoreV1().Pods("default").UpdateStatus(h.ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("a launch", func() bool { return h.launcher.podNames()["db"] == 1 })
}

// An adopted pod of a namespace that sleeps gets its node as soon as the namespace is awake.
func TestAdoptedPodsOfANamespaceThatSleeps(t *testing.T) {
	t.Parallel()
	h := adopting(t, sleeps(always))
	h.replicaSet("web", 1)
	h.pod("web-0", theirs)
	h.eventually("the pod to be held back", func() bool { return h.metric("slipway_pods_asleep", "") == 1 })
	if n := len(h.launcher.claims()); n != 0 {
		t.Errorf("%d nodes were launched in its sleep", n)
	}
	h.sleep("")
	h.eventually("a launch", func() bool { return h.launcher.podNames()["web-0"] == 1 })
}

// A standby sees the same pods. It sends no launch, which its launcher would refuse, and nominates no pod. It does both when it leads.
func TestAStandbyLeavesPodsOfOthersAlone(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{args: []string{"batchIdle: 100ms", "batchMax: 2m", "adopt: [default-scheduler]"}, objects: []runtime.Object{newNode("full", "100m", nil)}, standby: true})
	h.replicaSet("web", 1)
	h.pod("web-0", theirs)
	// It would look at them once a second.
	time.Sleep(2500 * time.Millisecond)
	if names := h.launcher.podNames(); len(names) != 0 {
		t.Errorf("a standby sent %v", names)
	}
	if pod := h.get("web-0"); pod.Status.NominatedNodeName != "" {
		t.Errorf("a standby nominated the pod to %s", pod.Status.NominatedNodeName)
	}
	h.lead()
	h.eventually("a launch", func() bool { return h.launcher.podNames()["web-0"] == 1 })
}
