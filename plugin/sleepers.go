package plugin

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
)

const (
	// unknownLead is how long before the end of a sleep its pods wake where no node's boot is known.
	unknownLead = 75 * time.Second
	// besidesBoot is what pods need beside the boot of their nodes: to be planned, launched and started.
	besidesBoot = 15 * time.Second
	// learnEvery is how often the boots of nodes are looked at, learnWithin how old a node may be.
	learnEvery, learnWithin = 30 * time.Second, 24 * time.Hour
	// countEvery is how often the pods that are held back are counted.
	countEvery = 5 * time.Second
	// longestBoot is what no boot takes: the node was not Ready for a while since.
	longestBoot = 10 * time.Minute
)

// sleepers hold back the pods of namespaces that sleep. It is safe for concurrent use.
type sleepers struct {
	namespaces corelisters.NamespaceLister

	mu sync.Mutex
	// lead is how long before the end of a sleep its pods wake.
	lead time.Duration
	// known are the namespaces with windows that pods were held back for, or might have been.
	known map[string]*slumber
	// held are the pods that were not reported on yet.
	held map[types.UID]heldPod
}

// slumber is what is known of the windows of one namespace.
type slumber struct {
	// text is the annotation that windows were read from.
	text    string
	windows window.Windows
	// asleep means that it sleeps until the time until; awake means that it does not, at least until then. It is computed again after that.
	asleep bool
	until  time.Time
	// ends is when the windows close.
	ends time.Time
	// holds means that pods were held back, for a sleep that ended at reported when the first was.
	holds    bool
	reported time.Time
}

// heldPod is a pod that is held back, and until when its namespace sleeps.
type heldPod struct {
	ref  catalog.PodRef
	ends time.Time
}

func newSleepers(namespaces corelisters.NamespaceLister) *sleepers {
	return &sleepers{namespaces: namespaces, lead: unknownLead, known: map[string]*slumber{}, held: map[types.UID]heldPod{}}
}

// holds reports whether the pod is held back, and until when its namespace sleeps. Pods of DaemonSets are not: they cost nothing where a node runs.
func (s *sleepers) holds(pod *corev1.Pod, now time.Time) (ends time.Time, ok bool) {
	ok = s.asleep(pod, now, func(of *slumber) {
		if !of.holds {
			of.holds, of.reported = true, of.ends
		}
		s.held[pod.UID] = heldPod{catalog.PodRefOf(pod), of.ends}
		ends = of.ends
	})
	return ends, ok
}

// asleep reports whether the pod would wait for its namespace, whose sleep it hands to a function, with the lock held.
func (s *sleepers) asleep(pod *corev1.Pod, now time.Time, use func(*slumber)) bool {
	namespace, err := s.namespaces.Get(pod.Namespace)
	if err != nil || namespace.Annotations[window.SleepAnnotation] == "" || ownedByDaemonSet(pod) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.look(namespace, now)
	if of.asleep {
		use(of)
	}
	return of.asleep
}

// replacement returns why the replacement of a pod that runs would wait; empty if it would not. Pods of Jobs run on while their namespace sleeps.
func (s *sleepers) replacement(pod *corev1.Pod, now time.Time) (why string) {
	s.asleep(pod, now, func(of *slumber) { why = explain.Asleep(pod.Namespace, of.ends).Text() })
	return why
}

// holding returns the namespaces that sleep and that pods were held back for.
func (s *sleepers) holding() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, of := range s.known {
		if of.asleep && of.holds {
			out = append(out, name)
		}
	}
	return out
}

// refusal returns why the pod is held back; empty if it is not.
func (s *sleepers) refusal(pod *corev1.Pod, now time.Time) string {
	if ends, held := s.holds(pod, now); held {
		return explain.Asleep(pod.Namespace, ends).String()
	}
	return ""
}

// look returns what holds for the namespace now. The caller holds the lock.
func (s *sleepers) look(namespace *corev1.Namespace, now time.Time) *slumber {
	of := s.known[namespace.Name]
	if of == nil {
		of = &slumber{}
		s.known[namespace.Name] = of
	}
	if text := namespace.Annotations[window.SleepAnnotation]; of.text != text {
		// The launcher writes an Event about windows that cannot be read: the namespace does not sleep in them.
		windows, _ := window.ReadSleep(namespace.Name, namespace.Annotations)
		of.text, of.windows, of.until = text, windows, time.Time{}
	}
	if now.Before(of.until) || len(of.windows) == 0 {
		of.asleep = of.asleep && len(of.windows) > 0
		return of
	}
	span, open := of.windows.Span(now)
	wakes := span.Wakes(s.lead)
	of.ends, of.asleep = span.Until, open && now.Before(wakes)
	switch {
	case of.asleep:
		of.until = wakes
	case open:
		of.until = span.Until
	default:
		of.until = of.windows.Next(now)
	}
	return of
}

// woken returns the namespaces that pods were held back for and that are awake by now, and forgets those that do not sleep any more.
func (s *sleepers) woken(now time.Time) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, of := range s.known {
		namespace, err := s.namespaces.Get(name)
		if gone := err != nil || namespace.Annotations[window.SleepAnnotation] == ""; gone {
			delete(s.known, name)
		} else if s.look(namespace, now).asleep {
			continue
		}
		if of.holds {
			of.holds = false
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// moved returns when the namespaces that hold pods back sleep until, where that is another time than when it was last asked for: their windows were edited. woken
// comes before it.
func (s *sleepers) moved() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out map[string]time.Time
	for name, of := range s.known {
		if of.asleep && of.holds && !of.ends.Equal(of.reported) {
			if out == nil {
				out = map[string]time.Time{}
			}
			of.reported = of.ends
			out[name] = of.ends
		}
	}
	return out
}

// take returns the pods that were held back since the last call.
func (s *sleepers) take() map[types.UID]heldPod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) == 0 {
		return nil // Callers read the result without the lock.
	}
	out := s.held
	s.held = map[types.UID]heldPod{}
	return out
}

// learned takes over how long nodes need to boot, for sleeps that have begun as well; zero leaves what was learned before.
func (s *sleepers) learned(boot time.Duration) {
	if boot <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lead := boot + besidesBoot
	if lead == s.lead {
		return
	}
	s.lead = lead
	for _, of := range s.known {
		// One that woke early stays awake.
		if of.asleep {
			of.until = time.Time{}
		}
	}
}

// bootTime returns within which time nine of ten new nodes were Ready, zero for no nodes. Those that were woken for a standby buffer boot faster: pods that find
// none asleep, or whose start EC2 refuses, would be late.
func bootTime(nodes []*corev1.Node, now time.Time) time.Duration {
	var took []time.Duration
	for _, node := range nodes {
		ready := conditions.Ready(node)
		isNew := node.Annotations[catalog.WokenAnnotation] == "" && now.Sub(node.CreationTimestamp.Time) <= learnWithin
		if node.Labels[nodePoolLabel] == "" || !isNew || ready == nil || ready.Status != corev1.ConditionTrue {
			continue
		}
		if d := ready.LastTransitionTime.Sub(node.CreationTimestamp.Time); d > 0 && d < longestBoot {
			took = append(took, d)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*9/10]
}

// newAsleep returns the gauge of pods that are held back.
func newAsleep() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slipway_pods_asleep", Help: "Pods that are held back since their namespace sleeps, counted every five seconds.",
	})
}

// waker wakes pods whose namespace sleeps no more, reports on those that are held back, and ends their nominations. The planner's goroutine alone uses it.
type waker struct {
	sleep  *sleepers
	queue  *queue
	status *podstatus.Writer
	// asleep shows how many pods are held back.
	asleep prometheus.Gauge
	// learnedAt is when the boots of nodes were last looked at, countedAt when the pods that are held back were counted.
	learnedAt, countedAt time.Time
}

// tend does what is due, and returns the namespaces that woke. Their pods of other schedulers are left to the caller: the scheduling queue has none of them.
func (w *waker) tend(now time.Time) (woken []string) {
	objects := w.queue.objects
	if now.Sub(w.learnedAt) >= learnEvery {
		w.learnedAt = now
		if nodes, err := objects.nodes.List(labels.Everything()); err == nil {
			w.sleep.learned(bootTime(nodes, now))
		}
	}
	for _, held := range w.sleep.take() {
		w.hold(held)
	}
	woken = w.sleep.woken(now)
	for _, namespace := range woken {
		pods, err := objects.pods.Pods(namespace).List(labels.Everything())
		if err != nil {
			continue
		}
		w.queue.activatePods(slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" || p.DeletionTimestamp != nil }))
	}
	for namespace, ends := range w.sleep.moved() {
		for _, p := range w.asleepIn(namespace) {
			// Others may be promised a node since before the sleep.
			if refusal, ok := explain.Read(p); ok && refusal.Code == explain.CodeAsleep {
				w.hold(heldPod{catalog.PodRefOf(p), ends})
			}
		}
	}
	if now.Sub(w.countedAt) >= countEvery {
		w.countedAt = now
		w.count()
	}
	return woken
}

// hold reports on a pod that is held back, and ends its nomination: until it wakes, the pod would keep others off the room, and the node from being removed.
func (w *waker) hold(held heldPod) {
	note := podstatus.Note{Pod: held.ref, Message: explain.Asleep(held.ref.Namespace, held.ends)}
	if pod := w.queue.objects.pod(held.ref); pod != nil {
		w.queue.endNomination(pod)
		note.NotNominated = pod.Status.NominatedNodeName
	}
	w.status.Report(note)
}

// count shows how many pods are held back.
func (w *waker) count() {
	n := 0
	for _, namespace := range w.sleep.holding() {
		n += len(w.asleepIn(namespace))
	}
	w.asleep.Set(float64(n))
}

// asleepIn returns the pods without a node in a namespace that sleeps.
func (w *waker) asleepIn(namespace string) []*corev1.Pod {
	pods, err := w.queue.objects.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
		return p.Spec.NodeName != "" || p.DeletionTimestamp != nil || ownedByDaemonSet(p) || !w.queue.profiles.plans(p)
	})
}
