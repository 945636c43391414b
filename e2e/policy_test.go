package e2e_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/manifests"
)

// asLauncher is a client that bears the launcher's name: what an attacker with its token could do.
func asLauncher(t *testing.T) client.Client {
	t.Helper()
	config := rest.CopyConfig(shared.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{
		UserName: manifests.LauncherUser, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
	out, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// foreignNode is one that slipway did not launch, with its Lease and, in kube-system, a pod. Its kubelet has just reported.
func (w *world) foreignNode(name string) (*corev1.Node, *coordinationv1.Lease, *corev1.Pod) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: true}}
	w.create(node)
	ready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	if err := w.client.Status().Patch(w.t.Context(), node, client.RawPatch("application/strategic-merge-patch+json", ready)); err != nil {
		w.t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: new(metav1.NewMicroTime(time.Now()))}
	pod := w.carelessIn("kube-system", name, name)
	w.create(lease)
	w.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		for _, o := range []client.Object{pod, lease, node} {
			if err := client.IgnoreNotFound(w.client.Delete(ctx, o, client.GracePeriodSeconds(0))); err != nil {
				w.t.Error(err)
			}
		}
	})
	return node, lease, pod
}

// carelessIn creates a pod of a namespace that no scheduler cares for; it has a node where one is named.
func (w *world) carelessIn(namespace, name, node string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: w.podSpec("10m", "10Mi", nil)}
	pod.Spec.SchedulerName, pod.Spec.NodeName = "careless", node
	w.create(pod)
	return pod
}

// With the launcher's token an attacker reaches the Nodes, Leases and pods that are slipway's, and no others. Every other test of this package
// shows that the launcher itself needs no more.
func TestLauncherIsHeldToItsOwnNodes(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t, "held"), t.Context()
	w.pool("held", nil)
	w.deployment("web", 1, w.podSpec("100m", "64Mi", nil))
	w.awaitRunning(1)
	ours := w.claimsOf("held")[0].Object.Status.NodeName
	node, lease, resident := w.foreignNode("held-foreign")
	unserved := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "held-unserved", Labels: map[string]string{"slipway.dev/schedule": "false"}}}
	w.create(unserved)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := w.client.Delete(ctx, unserved); err != nil {
			t.Error(err)
		}
	})
	system, apart, own := w.carelessIn("kube-system", "held-system", ""), w.carelessIn(unserved.Name, "held", ""), w.carelessIn(w.name, "held", "")
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := w.client.Delete(ctx, system); err != nil {
			t.Error(err)
		}
	})
	thief := asLauncher(t)
	patch := func(o client.Object, text string) error {
		return thief.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	bind := func(pod *corev1.Pod, node string) error {
		return thief.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
	}
	// The API server's policies have the Node from a cache.
	w.await(t, "the policies to know another's Node", func() bool {
		err := thief.Delete(ctx, resident.DeepCopy(), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), node.Name)
	})
	for _, c := range []struct {
		what, want string
		err        error
	}{
		{"creating a Node without the label", "writes Nodes with the label", thief.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "held-new"}})},
		{"tainting another's Node", "and no others", patch(node, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`)},
		{"taking another's Node by its label", "that had the label", patch(node, `{"metadata":{"labels":{"karpenter.sh/nodepool":"held"}}}`)},
		{"deleting another's Node", "that had the label", thief.Delete(ctx, node.DeepCopy())},
		{"taking the label off", "writes Nodes with the label", patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ours}}, `{"metadata":{"labels":{"karpenter.sh/nodepool":null,"karpenter.sh/capacity-type":null}}}`)},
		{"renewing another's Lease", "Leases of nodes with the label", patch(lease, `{"spec":{"leaseDurationSeconds":3600}}`)},
		{"deleting another's Lease", "Leases of nodes with the label", thief.Delete(ctx, lease.DeepCopy())},
		{"making a ConfigMap that gives rights", "ConfigMaps of its records", thief.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "aws-auth"}})},
		{"making a ConfigMap of any name", "ConfigMaps of its records", thief.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", GenerateName: "slipway-bill-"}})},
		{"binding a kube-system pod to another's Node", "does not bind pods to Node held-foreign", bind(system, node.Name)},
		{"deleting a pod of another's Node", "does not delete pods of Node held-foreign", thief.Delete(ctx, resident.DeepCopy())},
		{"binding a pod of a namespace that is not served", "namespace held-unserved: slipway does not serve it", bind(apart, ours)},
	} {
		if !apierrors.IsForbidden(c.err) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s is answered by %v, want %q", c.what, c.err, c.want)
		}
	}
	if err := bind(own, ours); err != nil {
		t.Errorf("binding a pod to a node of slipway's: %v", err)
	}
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "slipway-interruptions"}}
	if err := thief.Create(ctx, record, client.DryRunAll); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Errorf("making the ConfigMap of a record: %v", err)
	}
	label := client.MatchingLabels{karpv1.NodePoolLabelKey: "held"}
	var nodes corev1.NodeList
	if err := w.client.List(ctx, &nodes, label); err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != ours {
		t.Errorf("%d nodes of the NodePool, %v", len(nodes.Items), err)
	}
}
