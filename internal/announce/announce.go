package announce

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
)

const (
	// shards is the number of concurrent writers.
	shards = 8
	// maxQueued is the maximum number of queued Events per shard. Further ones are dropped, so that memory is bounded while the API server
	// is unreachable for hours.
	maxQueued = 25_000
	// retryAfter and attempts bound how long one Event is tried while the API server does not answer.
	retryAfter = 5 * time.Second
	attempts   = 12
	// flushTimeout is how long Run keeps writing queued Events after its context ends. It ends a write that has no answer yet.
	flushTimeout = 3 * time.Second
)

// Config holds the dependencies of an Announcer. Every field is required unless its comment says otherwise.
type Config struct {
	// Sink takes the Events.
	Sink Sink
	// Scheme has the kinds of the objects that Events are about.
	Scheme *runtime.Scheme
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Remembered is how many Events each of the eight writers knows of, to count those that come again together; zero for client-go's 4,096. Not
	// required.
	Remembered int
}

// Sink takes Events, each in its own namespace, until the context ends. client-go's client of Events is one.
type Sink interface {
	// CreateWithEventNamespaceWithContext creates an Event.
	CreateWithEventNamespaceWithContext(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
	// PatchWithEventNamespaceWithContext changes one.
	PatchWithEventNamespaceWithContext(ctx context.Context, event *corev1.Event, data []byte) (*corev1.Event, error)
}

// Announcer writes Events in the background.
type Announcer struct {
	config  Config
	metrics *metrics
	shards  [shards]shard
}

// shard is a queue and its goroutine's record of the Events that it wrote.
type shard struct {
	wake       chan struct{}
	correlator *record.EventCorrelator

	mu    sync.Mutex
	queue []*corev1.Event
}

// New returns an Announcer that queues Events, and writes them once Run is called.
func New(c Config) (*Announcer, error) {
	if c.Sink == nil || c.Scheme == nil || c.Registerer == nil {
		return nil, errors.New("announce: Sink, Scheme and Registerer are required")
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, fmt.Errorf("announce: %w", err)
	}
	a := &Announcer{config: c, metrics: m}
	for i := range a.shards {
		a.shards[i].wake = make(chan struct{}, 1)
		a.shards[i].correlator = record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{LRUCacheSize: c.Remembered})
	}
	return a, nil
}

// NewFor returns an Announcer of the API server of a configuration, for objects of the kinds that client-go's scheme has. remembered is Config.Remembered.
func NewFor(config *rest.Config, registerer prometheus.Registerer, remembered int) (*Announcer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("announce: a client for Events: %w", err)
	}
	return New(Config{
		Sink: client.CoreV1().Events(""), Scheme: scheme.Scheme, Registerer: registerer, Remembered: remembered,
	})
}

// EventRecorder writes Events about objects. *Recorder is one, and so is record.EventRecorder of client-go. The source component of
// the Events is its own: karpenter for the Events that Karpenter has too.
type EventRecorder interface {
	// Eventf records an Event about an object.
	Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any)
}

// Recorder records Events for one component.
type Recorder struct {
	announcer *Announcer
	source    corev1.EventSource
}

// Recorder returns a Recorder whose Events name the component.
func (a *Announcer) Recorder(component string) *Recorder {
	return &Recorder{announcer: a, source: corev1.EventSource{Component: component}}
}

// Eventf queues an Event about an object. It never blocks.
func (r *Recorder) Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any) {
	ref, err := reference.GetReference(r.announcer.config.Scheme, object)
	if err != nil {
		klog.Background().Error(err, "An Event about an unknown kind of object", "reason", reason)
		return
	}
	now := metav1.Now()
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	r.announcer.add(&corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", ref.Name, now.UnixNano()), Namespace: namespace},
		InvolvedObject: *ref,
		Reason:         reason,
		Message:        fmt.Sprintf(messageFmt, args...),
		FirstTimestamp: now, LastTimestamp: now, Count: 1, Type: eventtype,
		Source: r.source, ReportingController: r.source.Component,
	})
}

func (a *Announcer) add(event *corev1.Event) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(event.InvolvedObject.UID)) // A hash's Write returns no error.
	s := &a.shards[hash.Sum32()%shards]
	s.mu.Lock()
	full := len(s.queue) >= maxQueued
	if !full {
		s.queue = append(s.queue, event)
	}
	s.mu.Unlock()
	if full {
		a.metrics.dropped.Inc()
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends.
func (a *Announcer) Run(ctx context.Context) error {
	// The last Events explain why the process ends: they have their own timeout.
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTimeout, cancel) })()
	var wg sync.WaitGroup
	for i := range a.shards {
		wg.Go(func() { a.run(ctx, writing, &a.shards[i]) })
	}
	wg.Wait()
	return nil
}

func (a *Announcer) run(ctx, writing context.Context, s *shard) {
	for {
		for event := s.next(); event != nil && writing.Err() == nil; event = s.next() {
			a.write(writing, s, event)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
	}
}

func (s *shard) next() *corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.queue = nil // This releases the memory of a burst.
		return nil
	}
	event := s.queue[0]
	s.queue[0], s.queue = nil, s.queue[1:]
	return event
}

// write writes one Event, counted together with earlier equal ones, and retries while the API server does not answer.
func (a *Announcer) write(ctx context.Context, s *shard, event *corev1.Event) {
	logger := klog.FromContext(ctx)
	result, err := s.correlator.EventCorrelate(event)
	if err != nil {
		logger.Error(err, "An Event could not be compared with those before", "reason", event.Reason)
	}
	if result == nil || result.Skip {
		return
	}
	for range attempts {
		written, err := a.send(ctx, result)
		var refused apierrors.APIStatus
		switch {
		case err == nil:
			s.correlator.UpdateState(written)
			return
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsAlreadyExists(err):
			return // The process ends, or the Event is written.
		case errors.As(err, &refused) && !apierrors.IsTooManyRequests(err) && refused.Status().Code < 500:
			logger.Error(err, "The API server refused an Event", "reason", event.Reason, "object", klog.KRef(event.InvolvedObject.Namespace, event.InvolvedObject.Name))
			a.metrics.dropped.Inc()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
	a.metrics.dropped.Inc()
}

// send creates an Event, or increases the count of an existing one.
func (a *Announcer) send(ctx context.Context, result *record.EventCorrelateResult) (*corev1.Event, error) {
	if result.Event.Count > 1 {
		written, err := a.config.Sink.PatchWithEventNamespaceWithContext(ctx, result.Event, result.Patch)
		if !apierrors.IsNotFound(err) {
			return written, err
		}
		result.Event.ResourceVersion = "" // The Event has expired: it is created again.
	}
	return a.config.Sink.CreateWithEventNamespaceWithContext(ctx, result.Event)
}
