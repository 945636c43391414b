package sim

import (
	"context"
	"slices"
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

// The delay before a failed write is tried again: it doubles, for each pod by itself.
const (
	retryFirst   = 200 * time.Millisecond
	retryLongest = 5 * time.Second
)

// retry is when a pod's status is sent again after a failure, and how long that delay is.
type retry struct {
	at    time.Time
	delay time.Duration
}

// writer is a machine's status manager. It sends statuses one after the other, and only the last of several for the same
// pod. A status that cannot be sent delays no other. Its goroutine is run. Other goroutines may call put, forget and event.
type writer struct {
	client kubernetes.Interface
	slots  slots
	log    logr.Logger
	signal chan struct{}
	// gone reports that the watch has seen the pod's removal.
	gone func(pod *corev1.Pod) bool

	mu      sync.Mutex
	pending map[types.UID]podWrite
	order   []types.UID
	retries map[types.UID]retry
	events  []*corev1.Event
	// applied are the pods as the API server last returned them.
	applied map[types.UID]*corev1.Pod
}

func newWriter(client kubernetes.Interface, s slots, log logr.Logger, gone func(*corev1.Pod) bool) *writer {
	return &writer{
		client: client, slots: s, log: log, gone: gone,
		signal:  make(chan struct{}, 1),
		pending: map[types.UID]podWrite{},
		retries: map[types.UID]retry{},
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

// forget drops all that is known of a pod that exists no longer.
func (w *writer) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, queued := w.pending[uid]; queued {
		w.order = slices.DeleteFunc(w.order, func(other types.UID) bool { return other == uid })
	}
	delete(w.pending, uid)
	delete(w.retries, uid)
	delete(w.applied, uid)
}

// work is what the writer does next: one status, all Events, or nothing until a moment, which is zero for never.
type work struct {
	status *podWrite
	events []*corev1.Event
	until  time.Time
}

// take returns the next work at now. Statuses are sent first, since a controller may wait for them.
func (w *writer) take(now time.Time) work {
	w.mu.Lock()
	defer w.mu.Unlock()
	var until time.Time
	for i, uid := range w.order {
		if at := w.retries[uid].at; at.After(now) {
			if until.IsZero() || at.Before(until) {
				until = at
			}
			continue
		}
		p := w.pending[uid]
		w.order = slices.Delete(w.order, i, i+1)
		delete(w.pending, uid)
		return work{status: &p}
	}
	events := w.events
	w.events = nil
	return work{events: events, until: until}
}

// putBack queues a write that failed for a later moment, unless there is a newer one, which waits instead.
func (w *writer) putBack(p podWrite, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid := p.pod.UID
	delay := min(max(retryFirst, 2*w.retries[uid].delay), retryLongest)
	w.retries[uid] = retry{at: now.Add(delay), delay: delay}
	if _, newer := w.pending[uid]; !newer {
		w.order = append(w.order, uid)
		w.pending[uid] = p
	}
}

func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.await(ctx, w.drain(ctx))
	}
}

// drain writes all that can be written now. It returns when the next of the others can be; zero for never.
func (w *writer) drain(ctx context.Context) time.Time {
	for ctx.Err() == nil {
		next := w.take(time.Now())
		switch {
		case next.status != nil:
			w.send(ctx, *next.status)
		case len(next.events) > 0:
			for _, e := range next.events {
				w.slots.do(ctx, func() { w.record(ctx, e) })
			}
		default:
			return next.until
		}
	}
	return time.Time{}
}

// await returns at the given moment, or when there is something new to write.
func (w *writer) await(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-w.signal:
	case <-due:
	case <-ctx.Done():
	}
}

// send writes one status, or queues it again.
func (w *writer) send(ctx context.Context, p podWrite) {
	var err error
	w.slots.do(ctx, func() { err = w.write(ctx, p) })
	switch {
	case err != nil && ctx.Err() == nil:
		w.log.V(2).Info("Could not write a pod's status, will try again", "pod", klog.KObj(p.pod), "err", err)
		w.putBack(p, time.Now())
	case p.remove || w.gone(p.pod):
		w.forget(p.pod.UID)
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.retries, p.pod.UID)
	}
}

// write sends one status, unless the pod was deleted or another pod has its name now.
func (w *writer) write(ctx context.Context, p podWrite) error {
	if w.gone(p.pod) {
		return nil
	}
	base := w.newest(p.pod)
	updated, _, unchanged, err := utilpod.PatchPodStatus(ctx, w.client, base.Namespace, base.Name, base.UID, base.Status, p.status)
	if err != nil {
		// The error's type is lost here.
		if w.isDeleted(ctx, base) {
			return nil
		}
		return err
	}
	if !unchanged {
		w.mu.Lock()
		w.applied[base.UID] = updated
		w.mu.Unlock()
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
	return nil
}

// newest returns the pod as the API server last returned it, if that is newer than the watch's.
func (w *writer) newest(pod *corev1.Pod) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := w.applied[pod.UID]; last != nil {
		if order, err := resourceversion.CompareResourceVersion(last.ResourceVersion, pod.ResourceVersion); err == nil && order > 0 {
			return last
		}
	}
	return pod
}

// seen drops what the API server last returned of a pod once the watch has it, too.
func (w *writer) seen(pod *corev1.Pod) {
	if w.newest(pod) == pod {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.applied, pod.UID)
	}
}

// isDeleted reports whether the pod with this UID no longer exists. The node authorizer answers Forbidden for a pod that does not
// exist, and for one that it has not seen yet: only the watch distinguishes them.
func (w *writer) isDeleted(ctx context.Context, pod *corev1.Pod) bool {
	live, err := w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return w.gone(pod) || apierrors.IsNotFound(err) || (err == nil && live.UID != pod.UID)
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
