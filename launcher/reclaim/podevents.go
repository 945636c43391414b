package reclaim

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// podEvents records when a pod was last bound to or removed from each node. The status has this time too, but is written less often.
type podEvents struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newPodEvents() *podEvents { return &podEvents{last: map[string]time.Time{}} }

func (p *podEvents) note(node string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.After(p.last[node]) {
		p.last[node] = at
	}
}

func (p *podEvents) of(node string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[node]
}

func (p *podEvents) forget(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, node)
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// handler records pod changes and enqueues the node's claim. The pods of a Node that is gone go after it, and are not recorded.
func (p *podEvents) handler(nodes client.Reader, claims func(ctx context.Context, nodeName string) []reconcile.Request) handler.EventHandler {
	note := func(ctx context.Context, o client.Object, at time.Time, q queue) {
		pod, ok := o.(*corev1.Pod)
		if !ok || pod.Spec.NodeName == "" || !counts(pod) {
			return
		}
		if apierrors.IsNotFound(nodes.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &corev1.Node{}, client.UnsafeDisableDeepCopy)) {
			return
		}
		p.note(pod.Spec.NodeName, at)
		for _, r := range claims(ctx, pod.Spec.NodeName) {
			q.Add(r)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				note(ctx, pod, disruption.BoundAt(pod), q) // It may have existed at the launcher's start.
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*corev1.Pod)
			after, ok2 := e.ObjectNew.(*corev1.Pod)
			if ok && ok2 && moved(before, after) {
				note(ctx, after, time.Now(), q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { note(ctx, e.Object, time.Now(), q) },
	}
}

// nodeEvents forgets the Node that is deleted, beside what the handler does.
type nodeEvents struct {
	handler.EventHandler

	pods *podEvents
}

// Delete implements handler.EventHandler.
func (n nodeEvents) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	n.pods.forget(e.Object.GetName())
	n.EventHandler.Delete(ctx, e, q)
}

// moved reports whether the pod was bound, finished, or began to terminate.
func moved(before, after *corev1.Pod) bool {
	return before.Spec.NodeName != after.Spec.NodeName ||
		disruption.Terminal(before) != disruption.Terminal(after) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
}

// counts reports whether the pod matters for when a node is empty.
func counts(pod *corev1.Pod) bool { return !disruption.OfDaemonSet(pod) && !disruption.Static(pod) }
