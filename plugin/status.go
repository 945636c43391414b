package plugin

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
)

const (
	// statusPerSecond and statusBurst bound the writes of conditions and events: a wave of ten thousand pods must not
	// take the API server's time from their bindings. Most pods of a wave are bound before their turn and need none.
	statusPerSecond = 100
	statusBurst     = 300
	// noteLimit is the API server's on an event's note.
	noteLimit = 1024
)

// note is what a pod shall be told.
type note struct {
	ref catalog.PodRef
	// message of the condition PodScheduled=False, reason Unschedulable; empty leaves the condition as it is.
	message string
	// event is the reason of an event with the same text, empty for none.
	event string
	// warning makes it a warning.
	warning bool
	tries   int
}

// statusWriter tells pods what they wait for: in the background, the newest note of a pod only, in the order in which
// pods were first noted.
type statusWriter struct {
	client   clientset.Interface
	pods     corelisters.PodLister
	recorder events.EventRecorderLogger
	limit    *rate.Limiter
	wake     chan struct{}

	mu    sync.Mutex
	notes map[string]note
	order []string
}

func newStatusWriter(c clientset.Interface, pods corelisters.PodLister, r events.EventRecorderLogger) *statusWriter {
	return &statusWriter{
		client: c, pods: pods, recorder: r, limit: rate.NewLimiter(statusPerSecond, statusBurst),
		wake: make(chan struct{}, 1), notes: map[string]note{},
	}
}

// tell notes what to write; it replaces an older note of the pod.
func (w *statusWriter) tell(n note) {
	w.mu.Lock()
	if old, ok := w.notes[n.ref.UID]; ok {
		if n.message == "" {
			n.message = old.message
		}
	} else {
		w.order = append(w.order, n.ref.UID)
	}
	w.notes[n.ref.UID] = n
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *statusWriter) pop() (note, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) == 0 {
		return note{}, false
	}
	uid := w.order[0]
	w.order = w.order[1:]
	n := w.notes[uid]
	delete(w.notes, uid)
	return n, true
}

// run writes until the context ends.
func (w *statusWriter) run(ctx context.Context) {
	for {
		n, ok := w.pop()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-w.wake:
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		w.write(ctx, n)
	}
}

func (w *statusWriter) write(ctx context.Context, n note) {
	pod, err := w.pods.Pods(n.ref.Namespace).Get(n.ref.Name)
	if err != nil || string(pod.UID) != n.ref.UID || said(pod, n.message) {
		return
	}
	bound := pod.Spec.NodeName != ""
	if bound && n.event == "" || w.limit.Wait(ctx) != nil {
		return
	}
	w.event(pod, n)
	if bound {
		return
	}
	err = w.patch(ctx, pod, n.message)
	if apierrors.IsConflict(err) && n.tries < 3 {
		// The pod has changed: look again when the informer has seen it, without a second event.
		n.tries++
		n.event = ""
		w.again(n)
		return
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Pod was not told what it waits for", "pod", klog.KObj(pod), "err", err)
	}
}

func (w *statusWriter) event(pod *corev1.Pod, n note) {
	if n.event == "" || explain.SameReason(conditionMessage(pod), n.message) {
		return
	}
	kind := corev1.EventTypeNormal
	if n.warning {
		kind = corev1.EventTypeWarning
	}
	w.recorder.Eventf(pod, nil, kind, n.event, "Scheduling", "%s", clipped(n.message))
}

// again puts the note back unless there is a newer one.
func (w *statusWriter) again(n note) {
	w.mu.Lock()
	_, newer := w.notes[n.ref.UID]
	w.mu.Unlock()
	if !newer {
		w.tell(n)
	}
}

// said says whether the pod's condition has this message already.
func said(pod *corev1.Pod, message string) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && c.Message == message
		}
	}
	return false
}

func conditionMessage(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

// patch writes the condition if the pod is still the one that was read: a pod bound meanwhile must not be told that it
// is unschedulable.
func (w *statusWriter) patch(ctx context.Context, pod *corev1.Pod, message string) error {
	since := metav1.NewTime(time.Now())
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			since = c.LastTransitionTime
		}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: message, LastTransitionTime: since, ObservedGeneration: pod.Generation,
		}}},
	})
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	return err
}

func clipped(s string) string {
	if len(s) <= noteLimit {
		return s
	}
	return s[:noteLimit-4] + " ..."
}

func refOf(pod *corev1.Pod) catalog.PodRef {
	return catalog.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}
