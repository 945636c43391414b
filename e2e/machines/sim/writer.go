package sim

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	utilpod "k8s.io/kubernetes/pkg/util/pod"
)

// slots limits the concurrent requests of all machines.
type slots chan struct{}

// do runs f when a slot is free, unless ctx ends first.
func (s slots) do(ctx context.Context, f func()) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-s }()
	f()
}

// podWrite is the newest status of a pod that the API server does not have yet.
type podWrite struct {
	pod    *corev1.Pod
	status corev1.PodStatus
	// remove is true where the pod is to be deleted for good after the status is written.
	remove bool
}

// writer is a machine's status manager. It sends statuses one after the other, and only the last of several for the same
// pod. Its goroutine is run. Other goroutines may call put and event.
type writer struct {
	client kubernetes.Interface
	slots  slots
	log    logr.Logger
	signal chan struct{}

	mu      sync.Mutex
	pending map[types.UID]podWrite
	order   []types.UID
	events  []*corev1.Event

	// applied are the pods as the API server last returned them. They belong to run's goroutine.
	applied map[types.UID]*corev1.Pod
}

func newWriter(client kubernetes.Interface, s slots, log logr.Logger) *writer {
	return &writer{
		client: client, slots: s, log: log,
		signal:  make(chan struct{}, 1),
		pending: map[types.UID]podWrite{},
		applied: map[types.UID]*corev1.Pod{},
	}
}

func (w *writer) put(p podWrite) {
	w.mu.Lock()
	if _, queued := w.pending[p.pod.UID]; !queued {
		w.order = append(w.order, p.pod.UID)
	}
	w.pending[p.pod.UID] = p
	w.mu.Unlock()
	w.wake()
}

func (w *writer) event(e *corev1.Event) {
	w.mu.Lock()
	w.events = append(w.events, e)
	w.mu.Unlock()
	w.wake()
}

func (w *writer) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// take returns the oldest write and all Events. Statuses are sent first, since a controller may wait for them.
func (w *writer) take() (podWrite, bool, []*corev1.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) > 0 {
		uid := w.order[0]
		w.order = w.order[1:]
		p := w.pending[uid]
		delete(w.pending, uid)
		return p, true, nil
	}
	events := w.events
	w.events = nil
	return podWrite{}, false, events
}

// putBack queues a write that failed, unless there is a newer one.
func (w *writer) putBack(p podWrite) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, newer := w.pending[p.pod.UID]; !newer {
		w.order = append(w.order, p.pod.UID)
		w.pending[p.pod.UID] = p
	}
}

func (w *writer) run(ctx context.Context) {
	const pause, longest = 200 * time.Millisecond, 5 * time.Second
	wait := pause
	for ctx.Err() == nil {
		p, any, events := w.take()
		if !any && len(events) == 0 {
			select {
			case <-w.signal:
			case <-ctx.Done():
			}
			continue
		}
		var err error
		if any {
			w.slots.do(ctx, func() { err = w.write(ctx, p) })
		}
		for _, e := range events {
			w.slots.do(ctx, func() { w.record(ctx, e) })
		}
		if err == nil || ctx.Err() != nil {
			wait = pause
			continue
		}
		w.log.V(2).Info("Could not write a pod's status, will try again", "pod", klog.KObj(p.pod), "err", err)
		w.putBack(p)
		sleep(ctx, wait)
		wait = min(2*wait, longest)
	}
}

// write sends one status, unless the pod was deleted or another pod has its name now.
func (w *writer) write(ctx context.Context, p podWrite) error {
	base := p.pod
	if last := w.applied[base.UID]; last != nil {
		if order, err := resourceversion.CompareResourceVersion(last.ResourceVersion, base.ResourceVersion); err == nil && order > 0 {
			base = last
		}
	}
	updated, _, unchanged, err := utilpod.PatchPodStatus(ctx, w.client, base.Namespace, base.Name, base.UID, base.Status, p.status)
	if err != nil {
		// The error's type is lost here.
		if w.isDeleted(ctx, base) {
			delete(w.applied, base.UID)
			return nil
		}
		return err
	}
	if !unchanged {
		w.applied[base.UID] = updated
	}
	if !p.remove {
		return nil
	}
	err = w.client.CoreV1().Pods(base.Namespace).Delete(ctx, base.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(base.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	delete(w.applied, base.UID)
	return nil
}

// isDeleted reports whether the pod with this UID no longer exists.
func (w *writer) isDeleted(ctx context.Context, pod *corev1.Pod) bool {
	live, err := w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || (err == nil && live.UID != pod.UID)
}

func (w *writer) record(ctx context.Context, e *corev1.Event) {
	if _, err := w.client.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
		w.log.V(2).Info("Could not record an event", "event", klog.KObj(e), "reason", e.Reason, "err", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
