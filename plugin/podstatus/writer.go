package podstatus

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/clip"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
)

const (
	// statusPerSecond and statusBurst bound the writes of conditions and Events: the status of ten thousand new pods must not
	// take the API server's time from their bindings. Most of these pods are bound before their turn and need no status.
	statusPerSecond = 100
	statusBurst     = 300
	// A pod whose conditions already say why no node is launched waits for its new figures: such a refresh is written for refreshBurst pods
	// at once, and for one pod every refreshEvery. The scheduler's verdict counts the nodes, so each node that comes or ends changes the
	// message of each pending pod, however many there are.
	refreshEvery = 200 * time.Millisecond
	refreshBurst = 50
	// noteLimit is the API server's limit on the note of an Event.
	noteLimit = 1024
	// eventEvery is the shortest time between two Events of a pod.
	eventEvery = 10 * time.Second
	// lookEvery is how often due Events are looked for while notes are written.
	lookEvery = time.Second
	// eventMemory is how long the last Event of a pod is remembered while the pod exists.
	eventMemory = time.Hour
	// sweepEvery is how often Events are dropped that are too old or whose pods are deleted.
	sweepEvery = time.Minute
)

// Note is what to write for one pod.
type Note struct {
	// Pod that the note is for.
	Pod catalog.PodRef
	// Message of the condition PodScheduled=False, reason Unschedulable. Its Refusal is the condition NodeLaunchable=False as well. The
	// zero Message leaves the conditions as they are.
	Message explain.Message
	// EventReason is the reason of an Event with the same text. Empty sends none.
	EventReason string
	// Warning makes the Event a warning.
	Warning bool
	// NominatedNode is the nominatedNodeName that an adopted pod is to have. Empty leaves it as it is.
	NominatedNode string
	// NotNominated is the nominatedNodeName that a pod is to lose, if it still has it. Empty leaves it as it is.
	NotNominated string

	tries int
}

// Config is what a Writer needs. All fields are required.
type Config struct {
	// Client writes conditions and nominatedNodeName.
	Client clientset.Interface
	// Pods are the pods as an informer shows them.
	Pods corelisters.PodLister
	// Recorder sends the Events that slipway alone writes, and Karpenter those that Karpenter writes too.
	Recorder, Karpenter announce.EventRecorder
	// Adopts reports whether pods of the named scheduler are adopted: that scheduler writes their condition itself.
	Adopts func(scheduler string) bool
}

// recorder returns what sends Events of the reason. Tools that look for Karpenter's Events ask for its source as well.
func (c Config) recorder(reason string) announce.EventRecorder {
	if reason == "Nominated" || reason == "FailedScheduling" {
		return c.Karpenter
	}
	return c.Recorder
}

// Writer writes conditions and Events of pods in the background. It writes the newest note of each pod only. The namespaces
// take turns; within one, pods are written in the order of their first notes. What is only refreshed comes after all else.
type Writer struct {
	Config

	limit, refresh *rate.Limiter
	seed           maphash.Seed

	wake chan struct{}
	// beside means that a Karpenter runs beside slipway.
	beside atomic.Bool

	mu    sync.Mutex
	notes map[string]Note
	order turns

	// The following fields belong to Run: the last Event of each pod, the notes with an Event that is due later, the notes that refresh
	// conditions, those whose write failed, and the times when old Events were last dropped, bound pods last cleared and held Events last looked through.
	events  map[string]sentEvent
	later   map[string]Note
	stale   stale
	failed  retries
	swept   time.Time
	cleared time.Time
	looked  time.Time
}

// sentEvent is an Event that a pod got.
type sentEvent struct {
	pod catalog.PodRef
	// sum is the hash of the message's text without the scheduler's verdict.
	sum     uint64
	at      time.Time
	warning bool
}

// New returns a Writer that writes once Run is called.
func New(c Config) *Writer {
	return &Writer{
		Config: c, limit: rate.NewLimiter(statusPerSecond, statusBurst), refresh: rate.NewLimiter(rate.Every(refreshEvery), refreshBurst),
		seed: maphash.MakeSeed(), wake: make(chan struct{}, 1), notes: map[string]Note{}, events: map[string]sentEvent{}, later: map[string]Note{},
	}
}

// Report queues a note. It replaces an older note of the pod. It is safe for concurrent use.
func (w *Writer) Report(n Note) {
	w.mu.Lock()
	if old, ok := w.notes[n.Pod.UID]; ok {
		if n.EventReason == "" && (n.Message.IsZero() || n.NominatedNode != "") {
			n.EventReason, n.Warning = old.EventReason, old.Warning
		}
		if n.Message.IsZero() {
			n.Message = old.Message
		}
		n.NominatedNode = cmp.Or(n.NominatedNode, old.NominatedNode)
		n.NotNominated = cmp.Or(n.NotNominated, old.NotNominated)
	}
	w.put(n)
	w.mu.Unlock()
	w.wakeUp()
}

// put queues a note in place of an older one of the pod. The caller holds the lock.
func (w *Writer) put(n Note) {
	if _, ok := w.notes[n.Pod.UID]; !ok {
		w.order.add(n.Pod.Namespace, n.Pod.UID)
	}
	w.notes[n.Pod.UID] = n
}

func (w *Writer) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Writer) pop() (Note, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid, ok := w.order.next()
	if !ok {
		return Note{}, false
	}
	n := w.notes[uid]
	delete(w.notes, uid)
	return n, true
}

// Run writes until the context ends. Call it once.
func (w *Writer) Run(ctx context.Context) {
	for {
		if now := time.Now(); now.Sub(w.cleared) >= clearEvery {
			w.cleared = now
			w.clear(ctx)
		}
		n, ok := w.pop()
		if ok && ctx.Err() == nil {
			w.write(ctx, n)
			// A queue that is never empty delays no Event that is due.
			if now := time.Now(); now.Sub(w.looked) >= lookEvery {
				w.due(now)
			}
			continue
		}
		wait := min(time.Until(w.due(time.Now())), clearEvery)
		if w.stale.any() {
			if w.refresh.Tokens() >= 1 {
				w.write(ctx, w.stale.next())
				continue
			}
			wait = min(wait, refreshEvery)
		}
		timer := time.NewTimer(wait)
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

// due sends the Events that were held back long enough, drops old ones, and returns when it has to be called again.
func (w *Writer) due(now time.Time) time.Time {
	w.looked = now
	if now.Sub(w.swept) >= sweepEvery {
		w.sweep(now)
	}
	again, next := w.failed.due(now, now.Add(sweepEvery))
	for _, n := range again {
		w.again(n)
	}
	for uid, n := range w.later {
		at := w.events[uid].at.Add(eventEvery)
		if now.Before(at) {
			if at.Before(next) {
				next = at
			}
			continue
		}
		delete(w.later, uid)
		if pod := w.pod(n.Pod); pod != nil && pod.Spec.NodeName == "" {
			w.event(pod, n, now)
		}
	}
	return next
}

// sweep drops the Events that are too old, and those of pods that are deleted.
func (w *Writer) sweep(now time.Time) {
	w.swept = now
	maps.DeleteFunc(w.events, func(_ string, e sentEvent) bool { return now.Sub(e.at) >= eventMemory || w.pod(e.pod) == nil })
}

// pod returns the pod; nil if it is deleted.
func (w *Writer) pod(ref catalog.PodRef) *corev1.Pod {
	pod, err := w.Pods.Pods(ref.Namespace).Get(ref.Name)
	if err != nil || string(pod.UID) != ref.UID {
		return nil
	}
	return pod
}

// sum returns the hash of a message's text.
func (w *Writer) sum(text string) uint64 { return maphash.String(w.seed, text) }

func (w *Writer) write(ctx context.Context, n Note) {
	if !n.Message.IsZero() { // Else the conditions that wait are still the newest.
		w.stale.drop(n.Pod.UID)
		w.failed.drop(n.Pod.UID)
	}
	pod := w.pod(n.Pod)
	if pod == nil {
		return
	}
	if w.Adopts(pod.Spec.SchedulerName) {
		w.writeAdopted(ctx, pod, n)
		return
	}
	if n.NotNominated != "" && pod.Status.NominatedNodeName == n.NotNominated && w.limit.Wait(ctx) == nil {
		w.nominate(ctx, pod, nil)
	}
	if n.Message.IsZero() || w.reported(pod, n) {
		return
	}
	bound := pod.Spec.NodeName != ""
	if w.postponed(pod, n) || bound && n.EventReason == "" || w.limit.Wait(ctx) != nil {
		return
	}
	w.event(pod, n, time.Now())
	if bound || w.hasConditions(pod, n.Message) {
		return
	}
	w.settle(ctx, pod, n, w.patch(ctx, pod, n.Message))
}

// postponed keeps a note that refreshes the pod's conditions for later, and reports whether it did: there are no more refreshes for now.
func (w *Writer) postponed(pod *corev1.Pod, n Note) bool {
	if pod.Spec.NodeName != "" || !w.refreshes(pod, n.Message) || w.refresh.Allow() {
		return false
	}
	w.stale.add(n)
	return true
}

// settle has the note written again that was not, without a second Event, and logs failures but for the usual conflicts.
func (w *Writer) settle(ctx context.Context, pod *corev1.Pod, n Note, err error) {
	if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
		return
	}
	n.EventReason = ""
	if again := w.failed.add(n, time.Now()); !again || !apierrors.IsConflict(err) {
		klog.FromContext(ctx).V(2).Info("Condition of the pod was not written", "pod", klog.KObj(pod), "again", again, "err", err)
	}
}

// writeAdopted sends the Event and writes nominatedNodeName. The pod's own scheduler writes the condition.
func (w *Writer) writeAdopted(ctx context.Context, pod *corev1.Pod, n Note) {
	if w.limit.Wait(ctx) != nil {
		return
	}
	if !n.Message.IsZero() {
		w.event(pod, n, time.Now())
	}
	if n.NominatedNode == "" || pod.Spec.NodeName != "" || pod.Status.NominatedNodeName == n.NominatedNode {
		return
	}
	w.nominate(ctx, pod, &n.NominatedNode)
}

// nominate writes the name of the pod's nominated node if the pod has not changed since it was read; nil removes it.
func (w *Writer) nominate(ctx context.Context, pod *corev1.Pod, node *string) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"nominatedNodeName": node},
	})
	if err == nil {
		_, err = w.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	}
	// A write that failed is repeated a second later.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Nomination of the pod was not written", "pod", klog.KObj(pod), "err", err)
	}
}

// reported reports whether all of the note has been written.
func (w *Writer) reported(pod *corev1.Pod, n Note) bool {
	return w.hasConditions(pod, n.Message) && (n.EventReason == "" || w.last(pod).sum == w.sum(n.Message.Text()))
}

// last returns the last Event of the pod. Where it is not remembered, the pod's conditions are from before a restart, or have been the same for long: the
// Event had their text.
func (w *Writer) last(pod *corev1.Pod) sentEvent {
	if e, ok := w.events[string(pod.UID)]; ok {
		return e
	}
	return sentEvent{sum: w.sum(reportedText(pod))}
}

// event sends the note as an Event if its reason differs from that of the pod's last Event. It waits until eventEvery has
// passed since that one.
func (w *Writer) event(pod *corev1.Pod, n Note, now time.Time) {
	if n.EventReason == "" {
		return
	}
	uid, sum := n.Pod.UID, w.sum(n.Message.Text())
	last := w.last(pod)
	delete(w.later, uid)
	switch {
	case last.sum == sum:
		return
	case now.Before(last.at.Add(eventEvery)) && (n.Warning || !last.warning):
		// A reader of the warning waits for the launch that follows it at once.
		w.later[uid] = n
		return
	}
	w.events[uid] = sentEvent{pod: n.Pod, sum: sum, at: now, warning: n.Warning}
	kind := corev1.EventTypeNormal
	if n.Warning {
		kind = corev1.EventTypeWarning
	}
	w.recorder(n.EventReason).Eventf(pod, kind, n.EventReason, "%s", clipped(n.Message.String()))
}

// Warn sends a warning about the pod at once. The caller bounds how many there are.
func (w *Writer) Warn(pod *corev1.Pod, reason, text string) {
	w.Recorder.Eventf(pod, corev1.EventTypeWarning, reason, "%s", clipped(text))
}

// again queues the note, whose conditions were not written, unless there is a newer one with others.
func (w *Writer) again(n Note) {
	w.mu.Lock()
	switch newer, ok := w.notes[n.Pod.UID]; {
	case !ok:
		w.put(n)
	case newer.Message.IsZero():
		newer.Message, newer.tries = n.Message, n.tries
		w.put(newer)
	}
	w.mu.Unlock()
	w.wakeUp()
}

// clipped returns the text cut to noteLimit bytes, between two characters.
func clipped(s string) string { return clip.Within(s, noteLimit) }
