package join_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// hostPod creates a promised pod that is bound at launch.
func (w *world) hostPod(name string) {
	w.t.Helper()
	s := newScenario()
	s.pod(name, map[string]string{"host-network": ""})
	w.create(s.Slots[0].Pod)
	claim := w.current()
	refs, err := record.Pods(claim)
	if err != nil {
		w.t.Fatal(err)
	}
	claim.Annotations[catalog.PodsAnnotation] = catalog.FormatPods(append(refs, catalog.PodRef{Namespace: "default", Name: name, UID: "uid-" + name}))
	if err := w.api.Update(w.t.Context(), claim); err != nil {
		w.t.Fatal(err)
	}
}

// The kubelet registered under another name than EC2's, as with a user's own hostname: the placeholder is deleted with the pods bound to it,
// since no kubelet will run them. The promise of the other pods holds on the new Node.
func TestNodeUnderAnotherName(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute, "web-1")
	w.hostPod("proxy-1")
	c := w.controller()
	w.looks(c, 2)
	w.wantTrace("bind proxy-1")
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "custom"}, Spec: corev1.NodeSpec{ProviderID: w.instance.ProviderID()}})
	w.kubelet("custom", corev1.ConditionTrue)
	w.looks(c, 4)
	w.wantTrace(
		"event proxy-1 PreBoundPodDiscarded: It never ran and is replaced: the kubelet registered as custom, while EC2 calls the instance node-1",
		"rejected on default-1 NodeName",
		"event default-1 UnregisteredTaintMissing: Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes",
		"bind web-1")
	if w.node("node-1") != nil {
		t.Error("the placeholder is still there")
	}
	claim := w.current()
	if claim.Status.NodeName != "custom" || !claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		t.Errorf("status %+v", claim.Status)
	}
	var pods corev1.PodList
	if err := w.api.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Name != "web-1" || p.Spec.NodeName != "custom" {
			t.Errorf("pod %s is bound to %q", p.Name, p.Spec.NodeName)
		}
	}
}

// A cloud controller deleted the Node because EC2 did not show the instance yet: it is created again at once, and the pod that was
// bound to it is bound to it still.
func TestNodeDeletedBeforeItsKubeletCame(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute, "web-1")
	w.hostPod("proxy-1")
	c := w.controller()
	w.looks(c, 3)
	first := w.node("node-1")
	if err := w.api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.looks(c, 2)
	if again := w.node("node-1"); again == nil || again.Spec.ProviderID != w.instance.ProviderID() {
		t.Fatalf("Node %+v", again)
	}
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 4)
	w.wantTrace("bind proxy-1", "bind web-1")
	if w.joined != 1 {
		t.Errorf("Health was told of %d nodes that joined", w.joined)
	}
}

// User data made for Karpenter sets its NoExecute taint, and a kubelet that is faster than the launcher brings it along.
func TestUnregisteredTaint(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "other"}}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{karpv1.UnregisteredNoExecuteTaint},
	}})
	w.kubelet("node-1", corev1.ConditionFalse)
	c := w.controller()
	w.looks(c, 1)
	n := w.node("node-1")
	if slices.Contains(w.taints(n), karpv1.UnregisteredTaintKey) || !slices.Contains(w.taints(n), catalog.StartingTaintKey) {
		t.Errorf("taints %v", n.Spec.Taints)
	}
	if n.Labels[karpv1.NodePoolLabelKey] != "default" || n.Labels[karpv1.NodeRegisteredLabelKey] != "true" {
		t.Errorf("labels %v", n.Labels)
	}
}

// An agent removes its startup taint while no launcher leads: the next one does not add it again, as nothing would remove it a second time.
func TestStartupTaintThatIsRemovedWhileNoLauncherLeads(t *testing.T) {
	w := newWorld(t)
	claim := w.claim(time.Minute)
	claim.Spec.StartupTaints = []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoExecute}}
	if err := w.api.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.looks(w.controller(), 1)
	n := w.node("node-1")
	if !slices.Contains(w.taints(n), "cni") {
		t.Fatalf("taints %v", n.Spec.Taints)
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "cni" })
	if err := w.api.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(w.controller(), 4)
	if n := w.node("node-1"); slices.Contains(w.taints(n), "cni") || !w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		t.Errorf("taints %v, conditions %v", n.Spec.Taints, w.current().Status.Conditions)
	}
}

// A kubelet that created its Node without a taint that keeps pods away is reported once. With the taint of either, or with the launcher's Node,
// nothing is said.
func TestUnregisteredTaintMissing(t *testing.T) {
	said := "event default-1 UnregisteredTaintMissing: Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes"
	for name, c := range map[string]struct {
		create bool
		taints []corev1.Taint
		want   []string
	}{
		"created without":        {true, nil, []string{said}},
		"created with":           {true, []corev1.Taint{karpv1.UnregisteredNoExecuteTaint}, nil},
		"created with slipway's": {true, []corev1.Taint{{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule}}, nil},
		"the launcher's":         {false, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claim(time.Minute)
			subject := w.controller()
			if c.create {
				w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{Taints: c.taints}})
			} else {
				w.looks(subject, 2)
			}
			w.kubelet("node-1", corev1.ConditionFalse)
			w.looks(subject, 3)
			w.wantTrace(c.want...)
		})
	}
}

// Karpenter's reasons, one after the other.
func TestReasonsOfTheConditions(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	c := w.controller()
	want := func(condition, reason string) {
		t.Helper()
		if got := w.current().StatusConditions().Get(condition); got.Reason != reason {
			t.Errorf("%s is %s with reason %s, want %s", condition, got.Status, got.Reason, reason)
		}
	}
	w.looks(c, 2)
	want(karpv1.ConditionTypeRegistered, "NodeNotFound")
	w.kubelet("node-1", corev1.ConditionFalse)
	w.looks(c, 1)
	want(karpv1.ConditionTypeRegistered, karpv1.ConditionTypeRegistered)
	want(karpv1.ConditionTypeInitialized, "NodeNotReady")
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "twin"}, Spec: corev1.NodeSpec{ProviderID: w.instance.ProviderID()}})
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 2)
	want(karpv1.ConditionTypeInitialized, karpv1.ConditionTypeInitialized)
}

// A node with less than its pods were planned to request says so when it is initialized, in the same write.
func TestSmallNodeIsTold(t *testing.T) {
	for have, want := range map[string]metav1.ConditionStatus{"2": metav1.ConditionTrue, "1": metav1.ConditionFalse} {
		t.Run(have, func(t *testing.T) {
			w := newWorld(t)
			claim := w.claim(time.Minute)
			claim.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
			if err := w.api.Status().Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
			if err := w.api.Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			c := w.controller()
			w.looks(c, 2)
			node := w.node("node-1")
			node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(have)}
			if err := w.api.Status().Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			w.kubelet("node-1", corev1.ConditionTrue)
			for !w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
				w.looks(c, 1)
			}
			if got := w.current().StatusConditions().Get(karpv1.ConditionTypeConsistentStateFound); got.GetStatus() != want {
				t.Errorf("the condition is %+v, want %s", got, want)
			}
			told := slices.ContainsFunc(w.trace, func(line string) bool {
				return strings.Contains(line, "FailedConsistencyCheck: expected 2 of resource cpu, but found 1")
			})
			if told != (want == metav1.ConditionFalse) {
				t.Errorf("the Event was recorded: %t", told)
			}
		})
	}
}

// What is bound when, and why, stands on the NodeClaim, once.
func TestBindingsAreTold(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute, "web-1")
	w.hostPod("proxy-1")
	w.looks(w.controller(), 4)
	told := slices.DeleteFunc(slices.Clone(w.trace), func(line string) bool { return !strings.Contains(line, "BindingPlanned") })
	if len(told) != 1 || !strings.Contains(told[0], "1 at launch (it uses the host's network") || !strings.Contains(told[0], "1 when the node is ready") {
		t.Errorf("Events %q", told)
	}
	for pod, at := range map[string]string{"web-1": "ready", "proxy-1": "launch"} {
		if b, ok, err := record.BindingOf(w.current(), types.UID("uid-"+pod)); err != nil || !ok || b.At != at || b.Why == "" || b.Rule == "" {
			t.Errorf("pod %s: %+v, %t, %v", pod, b, ok, err)
		}
	}
}

// In a cluster without a queue no message reports that an instance was taken away while it booted: EC2 is asked every half minute.
func TestInstanceThatEndsWhileItBoots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.claim(0, "web-1")
		c := w.controller()
		w.looks(c, 2)
		w.ec2.Kill(w.instance.ID)
		time.Sleep(50 * time.Second)
		w.looks(c, 1)
		w.wantTrace()
		time.Sleep(40 * time.Second)
		w.looks(c, 1)
		w.wantTrace("failed default-1 instance_terminated",
			"event default-1 NodeDidNotJoin: instance "+w.instance.ID+" is terminated before its node was ready", "end default-1 instance_terminated")
	})
}

// While EC2 cannot be reached, nodes still join.
func TestEC2DoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.claim(0, "web-1")
		c := w.controller()
		w.looks(c, 2)
		w.ec2.Fail("Instances", errBusy)
		time.Sleep(90 * time.Second)
		w.kubelet("node-1", corev1.ConditionFalse)
		w.looks(c, 2)
		w.kubelet("node-1", corev1.ConditionTrue)
		w.looks(c, 4)
		w.wantTrace("bind web-1")
	})
}

// Three nodes in a row had their network ready when their kubelet started: the pods of the fourth need not wait for it. One that had
// not makes them wait again.
func TestNetworkAtStart(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	for i, late := range []bool{false, false, false, true, false} {
		id := w.ec2.Put(cloud.Instance{InstanceType: "m7g.large", Zone: "us-east-1a", PrivateDNSName: "node-1", PrivateIP: "10.0.0.1"})
		w.instance.ID = id
		w.claim(time.Minute, "web-1")
		w.looks(c, 2)
		bound := slices.Contains(w.trace, "bind web-1")
		if want := i == 3; bound != want {
			t.Errorf("node %d: bound before its kubelet came: %t", i, bound)
		}
		if late {
			w.kubeletSays("node-1", corev1.ConditionFalse, "container runtime network not ready: NetworkReady=false")
			w.looks(c, 1)
		}
		w.kubelet("node-1", corev1.ConditionTrue)
		w.looks(c, 5)
		w.clear()
	}
}

// clear deletes what a claim had.
func (w *world) clear() {
	w.t.Helper()
	w.trace = nil
	node := w.node("node-1")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}}
	for _, o := range []client.Object{node, w.current(), pod} {
		before := o.DeepCopyObject().(client.Object)
		o.SetFinalizers(nil)
		if o != client.Object(pod) {
			if err := w.api.Patch(w.t.Context(), o, client.MergeFrom(before)); err != nil {
				w.t.Fatal(err)
			}
		}
		if err := w.api.Delete(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}
