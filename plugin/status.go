package plugin

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"
	"unicode/utf8"

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
	// eventEvery is how often a pod gets an event at most.
	eventEvery = 10 * time.Second
	// eventMemory is how long the last event of a pod is remembered.
	eventMemory = time.Hour
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
	// nominate is what the nominatedNodeName of an adopted pod shall be; empty leaves it as it is.
	nominate string
	tries    int
}

// statusWriter tells pods what they wait for: in the background, the newest note of a pod only, in the order in which
// pods were first noted.
type statusWriter struct {
	client   clientset.Interface
	pods     corelisters.PodLister
	recorder events.EventRecorderLogger
	limit    *rate.Limiter
	wake     chan struct{}
	// adopts says whether pods of that scheduler are another's, which writes their condition itself; nil for no.
	adopts func(scheduler string) bool

	mu    sync.Mutex
	notes map[string]note
	order []string

	// The rest is the writer's own: the last event of each pod, and those that are due later. swept is when events were last
	// forgotten.
	events map[string]told
	later  map[string]note
	swept  time.Time
}

// told is an event that a pod got.
type told struct {
	reason  string
	at      time.Time
	warning bool
}

func newStatusWriter(c clientset.Interface, pods corelisters.PodLister, r events.EventRecorderLogger) *statusWriter {
	return &statusWriter{
		client: c, pods: pods, recorder: r, limit: rate.NewLimiter(statusPerSecond, statusBurst),
		wake: make(chan struct{}, 1), notes: map[string]note{}, events: map[string]told{}, later: map[string]note{},
	}
}

// tell notes what to write; it replaces an older note of the pod.
func (w *statusWriter) tell(n note) {
	w.mu.Lock()
	if old, ok := w.notes[n.ref.UID]; ok {
		if n.message == "" {
			n.message = old.message
		}
		if n.nominate == "" {
			n.nominate = old.nominate
		} else if n.event == "" {
			n.event, n.warning = old.event, old.warning
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
		if ok && ctx.Err() == nil {
			w.write(ctx, n)
			continue
		}
		timer := time.NewTimer(time.Until(w.due(time.Now())))
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// due sends the events that were held back long enough, forgets old ones, and returns when to look again.
func (w *statusWriter) due(now time.Time) time.Time {
	if now.Sub(w.swept) > eventMemory {
		w.swept = now
		maps.DeleteFunc(w.events, func(_ string, t told) bool { return now.Sub(t.at) > eventMemory })
	}
	next := now.Add(eventMemory)
	for uid, n := range w.later {
		at := w.events[uid].at.Add(eventEvery)
		if now.Before(at) {
			if at.Before(next) {
				next = at
			}
			continue
		}
		delete(w.later, uid)
		if pod, err := w.pods.Pods(n.ref.Namespace).Get(n.ref.Name); err == nil && string(pod.UID) == uid && pod.Spec.NodeName == "" {
			w.event(pod, n, now)
		}
	}
	return next
}

func (w *statusWriter) write(ctx context.Context, n note) {
	pod, err := w.pods.Pods(n.ref.Namespace).Get(n.ref.Name)
	if err != nil || string(pod.UID) != n.ref.UID {
		return
	}
	if w.adopts != nil && w.adopts(pod.Spec.SchedulerName) {
		w.writeAdopted(ctx, pod, n)
		return
	}
	if w.old(pod, n) {
		return
	}
	bound := pod.Spec.NodeName != ""
	if bound && n.event == "" || w.limit.Wait(ctx) != nil {
		return
	}
	w.event(pod, n, time.Now())
	if bound || said(pod, n.message) {
		return
	}
	w.settle(ctx, pod, n, w.patch(ctx, pod, n.message))
}

// settle follows up on what became of a write.
func (w *statusWriter) settle(ctx context.Context, pod *corev1.Pod, n note, err error) {
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

// writeAdopted sends the event, and writes nominatedNodeName; the condition is the word of the pod's own scheduler.
func (w *statusWriter) writeAdopted(ctx context.Context, pod *corev1.Pod, n note) {
	if w.limit.Wait(ctx) != nil {
		return
	}
	if n.message != "" {
		w.event(pod, n, time.Now())
	}
	if n.nominate == "" || pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == n.nominate {
		return
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"nominatedNodeName": n.nominate},
	})
	if err == nil {
		_, err = w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	}
	// What did not succeed is written again a second later.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Pod was not nominated", "pod", klog.KObj(pod), "err", err)
	}
}

// old says that the pod has been told all of it.
func (w *statusWriter) old(pod *corev1.Pod, n note) bool {
	return said(pod, n.message) && (n.event == "" || w.events[n.ref.UID].reason == explain.Reason(n.message))
}

// event sends the note as an event if it is news: another reason than the pod was told last, and not too soon after that.
func (w *statusWriter) event(pod *corev1.Pod, n note, now time.Time) {
	if n.event == "" {
		return
	}
	uid, reason := n.ref.UID, explain.Reason(n.message)
	last, known := w.events[uid]
	if !known {
		// Before a restart, perhaps.
		last.reason = explain.Reason(conditionMessage(pod))
	}
	delete(w.later, uid)
	switch {
	case last.reason == reason:
		return
	case now.Before(last.at.Add(eventEvery)) && (n.warning || !last.warning):
		// A launch that follows a warning at once is what its reader waits for.
		w.later[uid] = n
		return
	}
	w.events[uid] = told{reason: reason, at: now, warning: n.warning}
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

// clipped cuts at a letter, not inside of one.
func clipped(s string) string {
	if len(s) <= noteLimit {
		return s
	}
	cut := noteLimit - 4
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + " ..."
}

func refOf(pod *corev1.Pod) catalog.PodRef {
	return catalog.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}
