package bind

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/internal/announce"
)

// parallel is the maximum number of concurrent bindings: an API server answers hundreds per second, and a node that becomes Ready should not
// wait for another's.
const parallel = 64

// remembered is how long the Binder knows what it has bound or asked for: far longer than a watch takes to show it.
const remembered = 2 * time.Minute

// Binder binds pods. It is safe for concurrent use.
type Binder struct {
	client client.Client
	reader client.Reader
	events announce.EventRecorder
	slots  chan struct{}
	// answered are the pods whose bindings were answered for good, by UID.
	answered *cache.Expiring
	// sent has the name of the node that each pod was to be bound to, by UID, from before the API server was asked.
	sent *cache.Expiring
}

// NewBinder returns a Binder that writes through c, reads from the API server, past any cache, and records Events, whose source component is slipway's own.
func NewBinder(c client.Client, reader client.Reader, events announce.EventRecorder) (*Binder, error) {
	if c == nil || reader == nil || events == nil {
		return nil, errors.New("bind: a client, a reader and an event recorder are required")
	}
	return &Binder{client: c, reader: reader, events: events, slots: make(chan struct{}, parallel), answered: cache.NewExpiring(), sent: cache.NewExpiring()}, nil
}

// Bound reports whether the pod's binding was answered for good within the last two minutes: it is bound or deleted, whether or not a watch shows that
// yet.
func (b *Binder) Bound(uid types.UID) bool {
	_, ok := b.answered.Get(uid)
	return ok
}

// Sent reports whether the API server was asked within the last two minutes to bind the pod to the node: a watch may show the binding before the answer is
// here.
func (b *Binder) Sent(uid types.UID, node string) bool {
	to, ok := b.sent.Get(uid)
	return ok && to == node
}

// Binding is one pod to bind.
type Binding struct {
	// Pod to bind: its UID is the precondition.
	Pod *corev1.Pod
	// Node to bind it to, by name.
	Node string
	// Moment and Reason are shown in the Event.
	Moment Moment
	// Reason is the rule's, for people.
	Reason string
	// DeletionCost is what the pod gets as its annotation controller.kubernetes.io/pod-deletion-cost with the binding; none if it is empty.
	DeletionCost string
}

// All binds all pods concurrently and waits for every answer. It returns one error per binding, in their order: nil if the answer is final,
// which includes a pod that is deleted, was created again under its name, or is bound elsewhere.
func (b *Binder) All(ctx context.Context, list []Binding) []error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, binding := range list {
		b.slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-b.slots }()
			b.sent.Set(binding.Pod.UID, binding.Node, remembered)
			if errs[i] = b.bind(ctx, binding); errs[i] == nil {
				b.answered.Set(binding.Pod.UID, true, remembered)
			}
		})
	}
	wg.Wait()
	return errs
}

func (b *Binder) bind(ctx context.Context, in Binding) error {
	logger := klog.FromContext(ctx).WithValues("pod", klog.KObj(in.Pod), "node", in.Node)
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Pod.Namespace, Name: in.Pod.Name, UID: in.Pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: in.Node},
	}
	if in.DeletionCost != "" {
		binding.Annotations = map[string]string{corev1.PodDeletionCost: in.DeletionCost}
	}
	err := b.client.SubResource("binding").Create(ctx, in.Pod, binding)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err) && b.settled(ctx, in.Pod):
		logger.V(2).Info("Promised pod is deleted or bound already", "err", err)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		logger.V(2).Info("Promised pod leaves with its namespace, which is being deleted")
		return nil
	case err != nil:
		return fmt.Errorf("binding pod %s/%s to node %s: %w", in.Pod.Namespace, in.Pod.Name, in.Node, err)
	}
	logger.V(2).Info("Bound pod ahead of the queue", "moment", in.Moment, "reason", in.Reason, "deletionCost", in.DeletionCost)
	b.events.Eventf(in.Pod, corev1.EventTypeNormal, "PreBound", "Bound to node %s at %s: %s", in.Node, in.Moment, in.Reason)
	return nil
}

// settled reports whether the API server shows that the pod will not be bound any more: it is deleted, is being deleted, or has a node. A conflict does not
// say so: it is also kube-apiserver's answer when etcd fails, as it does when its leader changes (pkg/registry/core/pod/storage/storage.go, assignPod).
func (b *Binder) settled(ctx context.Context, pod *corev1.Pod) bool {
	now := &corev1.Pod{}
	if err := b.reader.Get(ctx, client.ObjectKeyFromObject(pod), now); err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.UID != pod.UID || !now.DeletionTimestamp.IsZero() || now.Spec.NodeName != ""
}
