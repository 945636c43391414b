package join_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/join"
	"github.com/slipway-k8s/slipway/launcher/node"
)

// The failures of early binding that can be shown without a machine; docs/node-lifecycle.md lists them all. Each is shown with what a
// launcher without the check would do, and then with what slipway does.

// R4: the launcher's own taint blocks a DaemonSet without which the node never becomes ready. A launcher without the check waits until the
// deadline, and repeats that with the next node.
func TestR4TaintKeepsDaemonSetOff(t *testing.T) {
	booting := func(kept string, at time.Duration) join.Decision {
		s := newScenario()
		s.pod("web-1", nil)
		s.Now = start().Add(time.Second)
		s.apply(join.Decide(s.Observed), "")
		s.node(map[string]string{"ready": "false"})
		s.DaemonKeptOff, s.Now = kept, start().Add(at)
		return join.Decide(s.Observed)
	}
	if d := booting("", 4*time.Minute); d.Untaint {
		t.Error("careless: the taint went, nothing is shown")
	}
	if d := booting("", 5*time.Minute); d.End == "" {
		t.Error("careless: the node did not end, nothing is shown")
	}
	if d := booting("kube-system/cni", 22*time.Second); !d.Untaint {
		t.Errorf("the taint stays: %+v", d)
	}
}

// R7: the name of a node is reused, and its stale Node object still exists. A launcher without the check uses a Node that belongs to another
// instance, and binds to it.
func TestR7StaleNode(t *testing.T) {
	w := newWorld(t)
	claim := w.claim(time.Minute, "web-1")
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "stale"}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-old"}})
	err := w.api.Create(t.Context(), node.New(claim, w.instance))
	if !apierrors.IsAlreadyExists(err) || w.node("node-1").Spec.ProviderID == w.instance.ProviderID() {
		t.Errorf("careless: %v, nothing is shown", err)
	}
	c := w.controller()
	if _, err := w.look(c); err == nil {
		t.Error("no error: nobody looks again")
	}
	w.looks(c, 1)
	if n := w.node("node-1"); n == nil || n.UID == "stale" || n.Spec.ProviderID != w.instance.ProviderID() {
		t.Errorf("Node %+v", n)
	}
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 4)
	w.wantTrace("bind web-1")
}

// R9: a scheduler's plugins at Reserve, Permit and PreBind are not called for a pod that another component binds. A launcher without the
// check binds it at Ready.
func TestR9PluginsAreNotCalled(t *testing.T) {
	ready := func(only string) []bind.Binding {
		s := newScenario()
		s.pod("web-1", map[string]string{"scheduler-only": only})
		s.Now = start().Add(time.Second)
		s.apply(join.Decide(s.Observed), "")
		s.node(map[string]string{"ready": "true"})
		return join.Decide(s.Observed).Bind
	}
	if len(ready("")) != 1 {
		t.Error("careless: the pod was not bound, nothing is shown")
	}
	if got := ready("plugin Coscheduling permits its pods"); len(got) != 0 {
		t.Errorf("bound past its plugins: %+v", got)
	}
}

// R3, in the pure rule: pods that do not tolerate a startup taint, or not for long, wait for the scheduler. A launcher that ignores the
// taints binds pods that are then evicted.
func TestR3TaintsOutOfAccount(t *testing.T) {
	moment := func(taints ...corev1.Taint) bind.Moment {
		s := newScenario()
		s.pod("web-1", map[string]string{"volumes": "none"})
		return bind.Rules().At(bind.Facts{Pod: s.Slots[0].Pod, Taints: taints, Setting: bind.Auto}).Moment
	}
	if moment() != bind.Launch {
		t.Error("careless: not bound at launch, nothing is shown")
	}
	if got := moment(corev1.Taint{Key: "agent", Effect: corev1.TaintEffectNoExecute}); got != bind.Scheduler {
		t.Errorf("bound at %s under a NoExecute taint", got)
	}
	if moment(corev1.Taint{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule}) != bind.Launch {
		t.Error("slipway's own taint keeps its own pods off")
	}
}
