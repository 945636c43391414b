package observe

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// Moment is when something was first seen. The zero value means never.
type Moment struct {
	// At is the wall clock's time of arrival.
	At time.Time
	// Revision of the object that showed it; revisions of one API server are in the order of its writes.
	Revision uint64
}

// Seen says whether the moment has come.
func (m Moment) Seen() bool { return !m.At.IsZero() }

// Before says whether both have come, this one's write first.
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
	// Object as last seen.
	Object *corev1.Pod
	// Created, Unschedulable (its condition said so), Bound to a node, Running, Ready, Terminating, Failed and Deleted.
	Created, Unschedulable, Bound, Running, Ready, Terminating, Failed, Deleted Moment
}

// neverUpdated is the reason of the conditions that kube-controller-manager gives a Node whose kubelet has not come.
const neverUpdated = "NodeStatusNeverUpdated"

// Node is the history of one Node object.
type Node struct {
	// Object as last seen.
	Object *corev1.Node
	// Created, kubelet Joined (posted a condition), Ready, startup taint Untainted, disrupted taint (Cordoned), Deleted.
	Created, Joined, Ready, Untainted, Cordoned, Deleted Moment
}

// Claim is the history of one NodeClaim.
type Claim struct {
	// Object as last seen.
	Object *karpv1.NodeClaim
	// Created and its conditions; Leaving is its deletion's request, Deleted its end.
	Created, Launched, Registered, Initialized, Leaving, Deleted Moment
	// Unguarded is when it named a launch or an instance and lacked Karpenter's finalizer, so that nothing would wait for the instance.
	Unguarded Moment
	// Expected is the offering and price as last annotated.
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
	c.Leaving.note(!obj.DeletionTimestamp.IsZero(), now)
	bought := obj.Status.ProviderID != "" || obj.Annotations[catalog.LaunchAnnotation] != ""
	c.Unguarded.note(bought && !slices.Contains(obj.Finalizers, karpv1.TerminationFinalizer), now)
	if e := view.ParseExpected(obj.Annotations[catalog.ExpectedAnnotation]); e.Price > 0 {
		c.Expected = e
	}
	conditions := obj.StatusConditions()
	c.Launched.note(conditions.Get(karpv1.ConditionTypeLaunched).IsTrue(), now)
	c.Registered.note(conditions.Get(karpv1.ConditionTypeRegistered).IsTrue(), now)
	c.Initialized.note(conditions.Get(karpv1.ConditionTypeInitialized).IsTrue(), now)
}

// HasTaint says whether a Node has a taint of this key.
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
		revision = 0 // A revision that is no number orders nothing; the time still tells.
	}
	return Moment{At: time.Now(), Revision: revision}
}
