package e2e_test

import (
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// kubectl delete nodeclaim: do-not-disrupt holds its pod until the termination grace period leaves it no more than its own; the node
// is out of the load balancers meanwhile.
func TestGracePeriodOverrulesDoNotDisrupt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "grace")
	w.pool("grace", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: 8 * time.Second}
	})
	w.deploy("web", 1, w.podSpec("500m", "512Mi", nil), protected)
	w.awaitRunning(1)
	claim := w.claimsOf("grace")[0]
	if err := w.client.Delete(t.Context(), claim.Object.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	balanced := true
	w.await(t, "the node to be gone and another pod to run", func() bool {
		n := w.node(claim.Object.Status.NodeName)
		if n.Object.Labels[corev1.LabelNodeExcludeBalancers] != "" {
			balanced = false
		}
		return claimGone(w.cluster, claim) && w.running() == 1
	})
	if balanced {
		t.Error("the node that left was never out of the load balancers")
	}
	for _, c := range w.recorder.Claims() {
		if c.Object.UID != claim.Object.UID {
			continue
		}
		for _, p := range w.pods() {
			if p.Object.Spec.NodeName != claim.Object.Status.NodeName {
				continue
			}
			// By the API server's clock; the pod's own grace is in its deletion timestamp.
			gone, leaves := p.Object.DeletionTimestamp, c.Object.DeletionTimestamp
			if gone == nil || leaves == nil || gone.Sub(leaves.Time) < 7*time.Second {
				t.Errorf("the pod was to end at %v, its node began to leave at %v: do-not-disrupt holds it for the 8 s of the grace period", gone, leaves)
			}
		}
	}
}

// deploy creates a Deployment that change adapts.
func (w *world) deploy(name string, n int32, spec corev1.PodSpec, change func(*appsv1.Deployment)) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	change(d)
	w.create(d)
}

// An EC2NodeClass that is deleted stays until the last of its nodes has left, a NodePool's nodes leave with it.
func TestDeleteNodeClassAndPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "farewell")
	class := &awsv1.EC2NodeClass{}
	if err := w.client.Get(t.Context(), keyOf("default"), class); err != nil {
		t.Fatal(err)
	}
	own := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "farewell"}, Spec: class.Spec}
	w.create(own)
	w.pool("farewell", func(p *karpv1.NodePool) { p.Spec.Template.Spec.NodeClassRef.Name = "farewell" })
	// Two: the only pod of a Deployment would wait for minutes for a replacement that has no NodePool.
	w.deployment("web", 2, w.podSpec("250m", "512Mi", nil))
	w.awaitRunning(2)
	claim := w.claimsOf("farewell")[0]
	if err := w.client.Delete(t.Context(), own.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.await(t, "an Event that says what the class waits for", func() bool {
		var list corev1.EventList
		if err := w.client.List(t.Context(), &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Name == "farewell" && e.Reason == "WaitingOnNodeClaimTermination" {
				return true
			}
		}
		return false
	})
	if err := w.client.Get(t.Context(), keyOf("farewell"), own); err != nil || own.DeletionTimestamp == nil || claimGone(w.cluster, claim) {
		t.Fatalf("the class went before its node: %v", err)
	}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "farewell"}}
	if err := w.client.Delete(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the pool's node to be gone, and then the class", func() bool {
		if !apierrors.IsNotFound(w.client.Get(t.Context(), keyOf("farewell"), own)) {
			return false
		}
		if err := w.client.Get(t.Context(), keyOf(claim.Object.Name), &karpv1.NodeClaim{}); !apierrors.IsNotFound(err) {
			t.Fatalf("the class went before its node: %v", err)
		}
		return true
	})
	awaitTerminated(t, instanceID(claim))
}
