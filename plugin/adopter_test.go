package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// idleAdopter is a planner that adopts the pods and sees the nodes of its stores.
type idleAdopter struct {
	*planner
	t           *testing.T
	pods, nodes cache.Indexer
	// leads means that scheduling cycles run.
	leads bool
}

func newIdleAdopter(t *testing.T) *idleAdopter {
	t.Helper()
	a := &idleAdopter{
		planner: newIdlePlanner(t, func([]catalog.PodRef) {}), t: t, leads: true,
		pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
	}
	a.adopter.leads = func() bool { return a.leads }
	q := a.adopter.queue
	q.profiles.served, q.profiles.adopted = []string{"slipway"}, []string{"default-scheduler"}
	q.objects.pods, q.objects.nodes = corelisters.NewPodLister(a.pods), corelisters.NewNodeLister(a.nodes)
	return a
}

// put has the informers show the pod as it is now.
func (a *idleAdopter) put(pod *corev1.Pod) {
	a.t.Helper()
	if err := a.pods.Update(pod.DeepCopy()); err != nil {
		a.t.Fatal(err)
	}
}

// node has the informers show a node of the NodeClaim, empty for none.
func (a *idleAdopter) node(name, claim string) {
	a.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if claim != "" {
		node.OwnerReferences = []metav1.OwnerReference{{Kind: "NodeClaim", Name: claim}}
	}
	if err := a.nodes.Update(node); err != nil {
		a.t.Fatal(err)
	}
}

// collects reports whether a look at the time collects the pod.
func (a *idleAdopter) collects(pod *corev1.Pod, now time.Time) bool {
	a.adopter.adopt(now)
	for _, e := range a.collected.Take(now) {
		if e.Pod.UID == pod.UID {
			return true
		}
	}
	return false
}

// unplaceable returns a pod that the default scheduler has found no node for.
func unplaceable(name string) *corev1.Pod {
	pod := benchPod(name, "")
	pod.Spec.SchedulerName, pod.ResourceVersion = "default-scheduler", "1"
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available.",
	}}
	return pod
}

// A standby collects no pod and asks for no look at one. It does both as soon as it leads.
func TestAStandbyAdoptsNothing(t *testing.T) {
	a, pod, now := newIdleAdopter(t), unplaceable("new"), time.Now()
	a.leads = false
	a.put(pod)
	a.adopter.podChanged(pod)
	if a.collects(pod, now) || !a.adopter.nextLook().IsZero() {
		t.Errorf("a standby collects the pod, or looks again at %s", a.adopter.nextLook())
	}
	a.leads = true
	if a.adopter.nextLook().After(now) || !a.collects(pod, now) {
		t.Error("the pod is not collected by the replica that leads")
	}
}

// A pod is left to its scheduler for its turn when its node is there, also where slipway nominated it before a restart: while its node was in
// flight, or when it was there already. Then it is planned again, each time after a turn. Nominations to nodes of others are left alone.
func TestTheTurnOfAnotherScheduler(t *testing.T) {
	for name, c := range map[string]struct {
		promised bool
		claim    string
		again    bool
	}{
		"promise restored":           {promised: true, claim: "c", again: true},
		"node joined meanwhile":      {claim: "c", again: true},
		"node of another autoscaler": {},
	} {
		t.Run(name, func(t *testing.T) {
			a, pod, now := newIdleAdopter(t), unplaceable("p"), time.Now()
			pod.Status.NominatedNodeName = "ip-1"
			a.put(pod)
			if c.promised {
				a.promises.Hold(promise.Promise{Pod: catalog.PodRefOf(pod), NodeClaim: c.claim, NodeName: "ip-1", Since: now})
				if a.collects(pod, now) {
					t.Error("a promised pod is collected")
				}
			}
			a.node("ip-1", c.claim)
			a.promises.ReleaseClaim("c")
			now = now.Add(time.Second)
			for _, after := range []struct {
				of     time.Duration
				turned bool
			}{{0, false}, {theirTurn - time.Second, false}, {theirTurn, true}, {theirTurn + time.Second, false}, {2 * theirTurn, true}} {
				if got := a.collects(pod, now.Add(after.of)); got != (after.turned && c.again) {
					t.Errorf("after %s: collected %t", after.of, got)
				}
			}
		})
	}
}

// The turn begins again with the next promise.
func TestEachNodeHasATurn(t *testing.T) {
	a, pod, now := newIdleAdopter(t), unplaceable("p"), time.Now()
	for _, node := range []string{"ip-1", "ip-2"} {
		pod.Status.NominatedNodeName = node
		a.put(pod)
		a.promises.Hold(promise.Promise{Pod: catalog.PodRefOf(pod), NodeClaim: node, NodeName: node, Since: now})
		now = now.Add(time.Minute)
		a.adopter.adopt(now)
		a.node(node, node)
		a.promises.ReleaseClaim(node)
		now = now.Add(time.Second)
		if a.collects(pod, now) || a.collects(pod, now.Add(theirTurn-time.Second)) || !a.collects(pod, now.Add(theirTurn)) {
			t.Errorf("node %s: the pod is not left to its scheduler for %s", node, theirTurn)
		}
		now = now.Add(theirTurn)
	}
}

// A pod that is held is collected again when it has changed, once for each change, but not while it is set aside. It is planned again after a while
// even so.
func TestAHeldPodIsCollectedAgain(t *testing.T) {
	a, pod, start := newIdleAdopter(t), unplaceable("p"), time.Now()
	a.put(pod)
	hold := func() { a.unplaced.Hold(intake.Entry{Pod: pod, Hopeless: true}) }
	looks := func(what string, after time.Duration, want bool) {
		t.Helper()
		if got := a.collects(pod, start.Add(after)); got != want {
			t.Errorf("%s: collected %t, want %t", what, got, want)
		}
	}
	looks("new", 0, true)
	hold()
	looks("as it was", time.Second, false)
	pod.ResourceVersion, pod.Status.Conditions[0].Message = "2", "0/4 nodes are available."
	a.put(pod)
	looks("with another message", 2*time.Second, true)
	hold()
	looks("with that message", 3*time.Second, false)
	if a.unplaced.Due(start.Add(retryEvery)) != nil {
		t.Error("it is planned again too early")
	}
	looks("after a while", retryEvery+time.Second, false)
	if now := start.Add(retryEvery + time.Second); a.unplaced.Due(now) == nil || a.unplaced.Due(now.Add(retryEvery)) != nil {
		t.Error("it is not planned again once after a while")
	}
	a.unplaced.Take(pod.UID)
	a.unplaced.SetAside(intake.Entry{Pod: pod}, start.Add(retryEvery))
	pod.ResourceVersion = "3"
	a.put(pod)
	looks("set aside", retryEvery+2*time.Second, false)
}
