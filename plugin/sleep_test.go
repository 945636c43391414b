package plugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// sleeps returns the namespace of the tests with the annotation.
func sleeps(text string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Annotations: map[string]string{"slipway.dev/sleep": text}}}
}

// sleep replaces the annotation of the tests' namespace.
func (h *harness) sleep(text string) {
	h.t.Helper()
	if _, err := h.client.CoreV1().Namespaces().Update(h.ctx, sleeps(text), metav1.UpdateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// always is a window that is open all the time.
const always = `- {schedule: "@daily", duration: 48h}`

// While its namespace sleeps no pod is scheduled, where a node has room or where none has, and none is launched for. It says until when. Pods of DaemonSets
// run. When the namespace is awake its pods are scheduled at once, and their nodes launched. What cannot be read is no sleep.
func TestPodsOfANamespaceThatSleeps(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{sleeps(always), newNode("one", "3920m", nil)}})
	for name, cpu := range map[string]int64{"fits": 500, "large": 6000} {
		h.pod(name, labeled(name, cpu, 0))
	}
	h.pod("agent", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	})
	h.eventually("the DaemonSet's pod", func() bool { return h.nodeOf("agent") == "one" })
	for _, name := range []string{"fits", "large"} {
		h.eventually("the condition of "+name, func() bool { return strings.HasPrefix(h.message(name), "namespace default sleeps until 2") })
	}
	if h.nodeOf("fits") != "" || len(h.launcher.claims()) != 0 {
		t.Errorf("in its sleep a pod is on node %q, and %d nodes were launched", h.nodeOf("fits"), len(h.launcher.claims()))
	}
	h.sleep(`- {schedule: "@daily", timeZone: Mars/Olympus, duration: 48h}`)
	h.eventually("the pod where there is room", func() bool { return h.nodeOf("fits") == "one" })
	h.eventually("a node for the other pod", func() bool { return h.launcher.podNames()["large"] == 1 })
}

// A pod that failed before its namespace slept waits in its sleep, whatever room comes.
func TestASleepThatBegins(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{absent: true, objects: []runtime.Object{sleeps(""), newNode("small", "100m", nil)}})
	h.pod("web", labeled("web", 500, 0))
	h.eventually("that the pod fits nowhere", func() bool { return strings.Contains(h.message("web"), "Insufficient cpu") })
	h.fallsAsleep("Insufficient cpu")
	h.createNode(newNode("one", "3920m", nil))
	h.eventually("the condition", func() bool { return strings.Contains(h.message("web"), "sleeps until") })
	h.sleep("")
	h.eventually("the pod on the node", func() bool { return h.nodeOf("web") == "one" })
}

// fallsAsleep has the namespace sleep, and returns when that is known. awake is in the messages of pods that come before.
func (h *harness) fallsAsleep(awake string) {
	h.t.Helper()
	h.sleep(always)
	// The informers of namespaces, pods and nodes keep no order: a pod that says so shows that the sleep is known, after others that came too early.
	probe := ""
	h.eventually("that the sleep is known", func() bool {
		if probe == "" || h.says(probe, awake) {
			probe += "p"
			h.pod(probe, labeled(probe, 500, 0))
		}
		return h.says(probe, "sleeps until")
	})
}

// A pod whose namespace falls asleep while its node boots keeps no room there: the empty node can be removed. Nor does one that was nominated a node before.
func TestNoNominationOutlastsTheDay(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{sleeps(""), newNode("small", "100m", nil)}})
	h.pod("web", labeled("web", 500, 0))
	h.eventually("a launch", func() bool { return h.launcher.podNames()["web"] == 1 })
	h.fallsAsleep("NodeClaim")
	claim := h.launcher.claims()[0]
	h.createNode(ownedNode("ip-1", "15890m", claim.GetName()))
	h.launcher.end(claim.GetName(), "ip-1", api.Outcome_OUTCOME_INITIALIZED)
	h.eventually("the condition", func() bool { return h.says("web", "sleeps until") })
	h.updateNode(ownedNode("ip-1", "15890m", claim.GetName(), disrupted()))
	h.eventually("the empty node to be free", func() bool { return !h.askBusy("free", "ip-1").GetBusy() })

	h.pod("urgent", func(p *corev1.Pod) { p.Status.NominatedNodeName = "small" })
	h.eventually("the end of the nomination that was written", func() bool { return h.get("urgent").Status.NominatedNodeName == "" })
	h.eventually("the end of the nomination", func() bool { return len(h.sched.SchedulingQueue.NominatedPodsForNode("small")) == 0 })
}

// A pod of a Job runs on in its namespace's sleep. If its node terminates, no room is planned, which nothing would take: its replacement waits. No move takes
// its node. When the namespace is awake both have room.
func TestNoRoomForWhatWouldWait(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{sleeps(always), newNode("going", "4", nil)}})
	h.pod("job", func(p *corev1.Pod) {
		p.Spec.NodeName = "going"
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "job", Controller: new(true)}}
	})
	h.known("going", 1)
	if answer := h.going("going"); len(answer.GetNodeClaims()) != 0 || answer.GetNoRoom() != "" || len(h.launcher.claims()) != 0 {
		t.Errorf("in its sleep: %v, %d NodeClaims", answer, len(h.launcher.claims()))
	}
	move := func(id string) *api.MakeRoomAnswer {
		return h.ask(&api.Question{Id: id, Kind: &api.Question_MakeRoom{MakeRoom: &api.MakeRoom{
			NodeNames: []string{"going"}, Pods: []string{"uid-job"}, Purpose: api.Purpose_PURPOSE_MOVE,
		}}}).GetMakeRoom()
	}
	if answer := move("asleep"); !strings.Contains(answer.GetNoRoom(), "the replacement of pod default/job would wait: namespace default sleeps until") {
		t.Errorf("a move in its sleep: %v", answer)
	}
	h.sleep("")
	h.eventually("room once it is awake", func() bool { return len(h.going("going").GetNodeClaims()) == 1 })
}

// Pods that are held back say until when after the windows were edited.
func TestASleepThatIsEdited(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{sleeps(always), newNode("one", "3920m", nil)}})
	h.pod("web", labeled("web", 500, 0))
	h.eventually("the condition", func() bool { return strings.HasPrefix(h.message("web"), "namespace default sleeps until 2") })
	before := h.message("web")
	h.sleep(`- {schedule: "@daily", duration: 72h}`)
	h.eventually("the other end", func() bool {
		now := h.message("web")
		return strings.HasPrefix(now, "namespace default sleeps until 2") && now != before
	})
}
