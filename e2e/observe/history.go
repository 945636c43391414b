package observe

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// Moment is when something was first observed. The zero value means never.
type Moment struct {
	// At is the local time of the observation.
	At time.Time
	// Revision is that of the object that showed it. Revisions of one API server are in the order of its writes.
	Revision uint64
}

// Seen reports whether the moment was observed.
func (m Moment) Seen() bool { return !m.At.IsZero() }

// Before reports whether both moments were observed, and this one was written first.
func (m Moment) Before(other Moment) bool {
	return m.Seen() && other.Seen() && m.Revision < other.Revision
}

func (m *Moment) note(reached bool, now Moment) {
	if reached && !m.Seen() {
		*m = now
	}
}

// Pod is the history of one pod.
type Pod struct {
	// Object is the last version observed.
	Object *corev1.Pod
	// Created is when the pod was created, Unschedulable when its condition first reported that, Bound when it got a node.
	// The others are its phases, conditions and deletion.
	Created, Unschedulable, Bound, Running, Ready, Terminating, Failed, Deleted Moment
}

// neverUpdated is the reason of the conditions that kube-controller-manager writes to a Node whose kubelet has not posted
// any.
const neverUpdated = "NodeStatusNeverUpdated"

// Node is the history of one Node object.
type Node struct {
	// Object is the last version observed.
	Object *corev1.Node
	// Joined is when the kubelet posted a condition, Untainted when the startup taint was removed, Cordoned when the
	// disruption taint was added.
	Created, Joined, Ready, Untainted, Cordoned, Deleted Moment
}

// Claim is the history of one NodeClaim.
type Claim struct {
	// Object is the last version observed.
	Object *karpv1.NodeClaim
	// Terminating is when the deletion was requested, Deleted when the object was removed. The others are its creation and
	// conditions.
	Created, Launched, Registered, Initialized, Terminating, Deleted Moment
	// Unguarded is when the NodeClaim named a launch or an instance and lacked Karpenter's finalizer, so that its deletion
	// would not wait for the instance.
	Unguarded Moment
	// Expected is the offering and price in its annotations.
	Expected view.Expected
}

func (p *Pod) update(obj *corev1.Pod, now Moment) {
	p.Object = obj
	p.Created.note(true, now)
	p.Bound.note(obj.Spec.NodeName != "", now)
	p.Running.note(obj.Status.Phase == corev1.PodRunning, now)
	p.Failed.note(obj.Status.Phase == corev1.PodFailed, now)
	p.Terminating.note(!obj.DeletionTimestamp.IsZero(), now)
	for _, c := range obj.Status.Conditions {
		unschedulable := c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		p.Unschedulable.note(unschedulable, now)
		p.Ready.note(c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue, now)
	}
}

func (n *Node) update(obj *corev1.Node, now Moment) {
	n.Object = obj
	n.Created.note(true, now)
	starting := HasTaint(obj, catalog.StartingTaintKey)
	n.Untainted.note(!starting, now)
	n.Cordoned.note(HasTaint(obj, karpv1.DisruptedTaintKey), now)
	for _, c := range obj.Status.Conditions {
		n.Joined.note(c.Reason != neverUpdated, now)
		n.Ready.note(c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue, now)
	}
}

func (c *Claim) update(obj *karpv1.NodeClaim, now Moment) {
	c.Object = obj
	c.Created.note(true, now)
	c.Terminating.note(!obj.DeletionTimestamp.IsZero(), now)
	bought := obj.Status.ProviderID != "" || obj.Annotations[catalog.LaunchAnnotation] != ""
	c.Unguarded.note(bought && !finalizer.Guarded(obj), now)
	if e := view.ParseExpected(obj.Annotations[catalog.ExpectedAnnotation]); e.Price > 0 {
		c.Expected = e
	}
	conditions := obj.StatusConditions()
	c.Launched.note(conditions.Get(karpv1.ConditionTypeLaunched).IsTrue(), now)
	c.Registered.note(conditions.Get(karpv1.ConditionTypeRegistered).IsTrue(), now)
	c.Initialized.note(conditions.Get(karpv1.ConditionTypeInitialized).IsTrue(), now)
}

// HasTaint reports whether a Node has a taint with this key.
func HasTaint(node *corev1.Node, key string) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

func momentOf(obj metav1.Object) Moment {
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		revision = 0 // A revision that is not a number gives no order. The time still does.
	}
	return Moment{At: time.Now(), Revision: revision}
}
