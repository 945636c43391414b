package join_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/join"
)

func (w *world) current() *karpv1.NodeClaim {
	w.t.Helper()
	out := &karpv1.NodeClaim{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: "default-1"}, out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// A Lease that the kubelet wrote first is the kubelet's: the launcher may not write it, and does not have to.
func TestLeaseOfTheKubeletIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute, "web-1")
	then := metav1.NewMicroTime(time.Now().Add(-time.Minute))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "node-1"}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("node-1"), RenewTime: &then}
	if err := w.api.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	c := w.controller()
	w.looks(c, 3)
	if w.node("node-1") == nil {
		t.Fatal("there is no Node")
	}
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
		t.Fatal(err)
	}
	if len(lease.Labels) > 0 || time.Since(lease.Spec.RenewTime.Time) < 30*time.Second {
		t.Errorf("the launcher wrote it: labels %v, renewed at %s", lease.Labels, lease.Spec.RenewTime)
	}
}

func TestFromLaunchToInitialized(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute, "web-1")
	c := w.controller()
	w.looks(c, 2)
	n := w.node("node-1")
	if n == nil || n.Spec.ProviderID != w.instance.ProviderID() || n.Status.Allocatable.Cpu().String() != "2" {
		t.Fatalf("Node %+v", n)
	}
	if diff := cmp.Diff([]string{"kube-node-lease/node-1 of default held by node-1"}, leases(w)); diff != "" {
		t.Errorf("Leases, -want +got:\n%s", diff)
	}
	w.wantTrace()
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 1)
	n = w.node("node-1")
	if !slices.Contains(n.Finalizers, karpv1.TerminationFinalizer) || n.Labels[karpv1.NodeRegisteredLabelKey] != "true" || n.OwnerReferences[0].UID != "claim" {
		t.Errorf("registered Node %+v", n.ObjectMeta)
	}
	if !slices.Contains(w.taints(n), catalog.StartingTaintKey) {
		t.Error("the taint went before the bindings were answered")
	}
	w.looks(c, 1)
	if n = w.node("node-1"); len(n.Spec.Taints) != 0 {
		t.Errorf("taints %v", n.Spec.Taints)
	}
	w.looks(c, 2)
	w.wantTrace("bind web-1")
	claim := w.current()
	for _, condition := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		if !claim.StatusConditions().Get(condition).IsTrue() {
			t.Errorf("%s is not True", condition)
		}
	}
	if n = w.node("node-1"); n.Labels[karpv1.NodeInitializedLabelKey] != "true" {
		t.Errorf("labels %v", n.Labels)
	}
}

// What would be a write of its own is part of another: the list of images of the creation of the Node, and the time of the last binding of the
// status of the node that is initialized.
func TestWritesThatAreSpared(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute, "web-1")
	c := w.controller()
	w.looks(c, 1)
	if n := w.node("node-1"); n.Annotations[catalog.PrefetchAnnotation] == "" || !slices.Equal(w.listed, []string{"node-1"}) {
		t.Errorf("annotations %v, Nodes with a list of images %v", n.Annotations, w.listed)
	}
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 4)
	if status := w.current().Status; status.LastPodEventTime.IsZero() {
		t.Errorf("status %+v", status)
	}
}

// The launch records when promised pods are bound, and nothing is written for it later. Annotations that leave no room for it are left as they are.
func TestBindingsAreRecordedWithTheLaunch(t *testing.T) {
	w := newWorld(t)
	claim := w.claim(time.Minute, "web-1")
	c := w.controller()
	full := claim.DeepCopy()
	full.Annotations["example.com/long"] = strings.Repeat("x", 256<<10-200)
	c.Prepare(t.Context(), full)()
	if got, ok := full.Annotations[catalog.BindingsAnnotation]; ok {
		t.Errorf("no room, but recorded: %s", got)
	}
	written := c.Prepare(t.Context(), claim)
	w.wantTrace()
	if err := w.api.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	written()
	planned := "event default-1 BindingPlanned: Promised pods are bound: 1 when the node is ready (volume kube-api-access would make it start later if it were bound before the network is ready)"
	if !slices.Equal(w.trace, []string{planned}) {
		t.Errorf("trace %q", w.trace)
	}
	w.looks(c, 2)
	if got := w.current().Annotations[catalog.BindingsAnnotation]; got != claim.Annotations[catalog.BindingsAnnotation] || !strings.Contains(got, "uid-web-1") {
		t.Errorf("recorded %s, then %s", claim.Annotations[catalog.BindingsAnnotation], got)
	}
	if !slices.Equal(w.trace, []string{planned}) {
		t.Errorf("trace %q", w.trace)
	}
}

// A claim without an instance is enqueued, but not while the process that recorded it may hand it over in its batch.
func TestClaimWithoutAnInstance(t *testing.T) {
	w := newWorld(t)
	finalizers := []string{karpv1.TerminationFinalizer}
	young := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-1", CreationTimestamp: metav1.Now(), Finalizers: finalizers}}
	w.create(young)
	c := w.controller()
	if after := w.looks(c, 1); after <= 0 || after > 3*time.Second {
		t.Errorf("again after %s", after)
	}
	w.wantTrace()
	young.Finalizers = nil
	if err := errors.Join(w.api.Update(t.Context(), young), w.api.Delete(t.Context(), young)); err != nil {
		t.Fatal(err)
	}
	w.looks(c, 1) // The claim is deleted.
	w.create(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "default-1", CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Minute)), Finalizers: finalizers,
	}})
	w.looks(c, 1)
	w.wantTrace("launch default-1")
	w.ours = false // A Karpenter is alive, and this is its claim.
	w.looks(c, 1)
	w.wantTrace()
}

func TestClaimThatIsGoing(t *testing.T) {
	w := newWorld(t)
	if err := w.api.Delete(t.Context(), w.claim(time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.looks(w.controller(), 1)
	w.wantTrace("forget claim")
	if w.node("node-1") != nil {
		t.Error("a Node was created for a claim that is going")
	}
}

// The Node waits until EC2 shows the instance: a cloud controller would delete it.
func TestNodeWaitsForTheInstance(t *testing.T) {
	w := newWorld(t)
	w.instance.ID = "i-unseen"
	w.claim(time.Minute)
	c := w.controller()
	if _, err := w.look(c); err == nil || w.node("node-1") != nil {
		t.Fatalf("error %v, Node %v", err, w.node("node-1"))
	}
	w.ec2.Put(cloud.Instance{ID: "i-unseen", Zone: "us-east-1a", PrivateDNSName: "node-1", PrivateIP: "10.0.0.1"})
	w.looks(c, 1)
	if w.node("node-1") == nil {
		t.Error("no Node")
	}
}

func TestInstanceThatEndedBeforeItsNode(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute, "web-1")
	w.ec2.Kill(w.instance.ID)
	w.looks(w.controller(), 1)
	if len(w.trace) != 3 || w.trace[0] != "failed default-1 instance_terminated" || w.trace[2] != "end default-1 instance_terminated" {
		t.Errorf("trace %q", w.trace)
	}
}

// The kubelet was faster: its Node is completed, taints included.
func TestNodeOfTheKubelet(t *testing.T) {
	for _, providerID := range []string{"", "aws:///us-east-1a/i-00000000000000001"} {
		w := newWorld(t)
		w.claim(time.Minute)
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{ProviderID: providerID}})
		w.looks(w.controller(), 1)
		n := w.node("node-1")
		if n.Spec.ProviderID != w.instance.ProviderID() || !slices.Contains(w.taints(n), catalog.StartingTaintKey) ||
			n.Labels[karpv1.NodePoolLabelKey] != "default" || n.Labels[corev1.LabelTopologyRegion] != "us-east-1" {
			t.Errorf("Node %+v %+v", n.ObjectMeta, n.Spec)
		}
	}
}

// A webhook refuses a pod's binding for good. The others, the taint and the conditions do not wait for it.
func TestBindingThatFails(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute, "web-1", "web-2")
	w.refuse["web-1"] = errBusy
	c := w.controller()
	w.looks(c, 1)
	w.kubelet("node-1", corev1.ConditionTrue)
	if after := w.looks(c, 1); after != 250*time.Millisecond {
		t.Errorf("again after %s", after)
	}
	w.looks(c, 7)
	w.wantTrace("bind web-2", "event web-1 NotPreBound: Left to the scheduler: binding pod default/web-1 to node node-1: the API server is busy")
	if !w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		t.Error("not initialized")
	}
}

// The cache may show an old claim with a new Node, or the reverse: removed taints do not come back.
func TestStaleClaim(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	c := w.controller()
	w.looks(c, 1)
	old := w.current()
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 1)
	now := w.current()
	now.Status = old.Status
	if err := w.api.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	w.looks(c, 1)
	if taints := w.taints(w.node("node-1")); len(taints) != 0 {
		t.Errorf("taints %v", taints)
	}
}

// The list of promises is damaged: the node still joins.
func TestPromisesThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	claim := w.claim(time.Minute)
	claim.Annotations[catalog.PodsAnnotation] = "{"
	if err := w.api.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	c := w.controller()
	w.looks(c, 1)
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 4)
	claim = w.current()
	if !claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() || !claim.Status.LastPodEventTime.IsZero() {
		t.Errorf("status %+v of the claim of a node without pods", claim.Status)
	}
}

// A DaemonSet with an invalid affinity does not delay the node; another that only the launcher's taint blocks does.
func TestDaemonSetsThatAreKeptOff(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	w.create(daemonSet("broken", &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Near"}},
		}}},
	}}))
	c := w.controller()
	w.looks(c, 1)
	w.kubelet("node-1", corev1.ConditionFalse)
	if after := w.looks(c, 2); after < time.Minute {
		t.Errorf("nothing is kept off, again after %s", after)
	}
	tolerant := daemonSet("tolerant", nil)
	tolerant.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	w.create(tolerant, daemonSet("cni", nil))
	if after := w.looks(c, 1); after > 20*time.Second {
		t.Errorf("the CNI is kept off, again after %s", after)
	}
	// Another taint blocks it as well: removing the launcher's would not help.
	n := w.node("node-1")
	before := client.MergeFrom(n.DeepCopy())
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule})
	if err := w.api.Patch(t.Context(), n, before); err != nil {
		t.Fatal(err)
	}
	if after := w.looks(c, 1); after < time.Minute {
		t.Errorf("kept off by another, again after %s", after)
	}
}

// A node that boots and joins needs few writes, however often it is looked at: the Lease is renewed when that is due, and the Node is patched once
// for all that it has become.
func TestWritesOfANode(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	counted := map[string]int{}
	config := w.config()
	config.Client = interceptor.NewClient(w.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			counted[fmt.Sprintf("patch %T", o)]++
			return c.Patch(ctx, o, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, _ string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			counted[fmt.Sprintf("status %T", o)]++
			return c.Status().Patch(ctx, o, patch, opts...)
		},
	})
	c, err := join.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.looks(c, 8)
	if n := counted["patch *v1.Lease"]; n != 0 {
		t.Errorf("the Lease was renewed %d times within seconds of its creation", n)
	}
	w.kubelet("node-1", corev1.ConditionTrue)
	w.looks(c, 8)
	if !w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		t.Fatal("the node is not initialized")
	}
	// Registered, then started and initialized.
	if n := counted["patch *v1.Node"]; n != 2 {
		t.Errorf("the Node was patched %d times, want 2: %v", n, counted)
	}
	if n := counted["status *v1.NodeClaim"]; n != 3 {
		t.Errorf("the NodeClaim's status was patched %d times, want 3: %v", n, counted)
	}
}
