package interrupt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

const (
	// minBackoff and maxBackoff bound the wait after the queue could not be read.
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	// idle is the pause if there is no queue, or if it answers at once without messages.
	idle = 5 * time.Second
	// handleTimeout bounds the work on one message: after the queue's visibility timeout the message is delivered again.
	handleTimeout = 20 * time.Second
	// batches is how many batches of messages are processed at a time. The queue is still read while one of them waits for the API server.
	batches = 10
)

// Queue is the interruption queue; cloud.Cloud has it.
type Queue interface {
	// Receive waits up to 20 s for messages; nil without a queue.
	Receive(ctx context.Context) ([]cloud.Message, error)
	// Delete removes a message.
	Delete(ctx context.Context, receipt string) error
}

// Ender terminates nodes; *terminate.Terminator is one.
type Ender interface {
	// Cordon makes a node unschedulable on behalf of by.
	Cordon(ctx context.Context, node, by string) error
	// Begin starts the termination of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
	// BeginNoticed is Begin for a reason of which EC2 gave notice at a time; zero for now.
	BeginNoticed(ctx context.Context, claim *karpv1.NodeClaim, reason string, at time.Time) error
	// BeginNow starts a termination without waiting for pods, or has one that has begun wait no longer.
	BeginNow(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Config holds the dependencies of an Interruptions. Every field is required.
type Config struct {
	// Client reads from the cache, with the indexes of package index.
	Client client.Client
	// Launching reports whether this process has launches in progress, whose NodeClaims the cache may not show as such yet.
	Launching func() bool
	// Queue is the interruption queue.
	Queue Queue
	// Checker lists impaired instances.
	Checker Checker
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Leading reports whether it does: the state of the queue is this replica's to report only then.
	Leading func() bool
	// Ender terminates nodes.
	Ender Ender
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may terminate all.
	Ours func(claim *karpv1.NodeClaim) bool
	// Unjoined ends a claim whose instance EC2 ended before its node joined, if EC2 says what is at fault, and reports whether it did. Nil means that
	// it never does.
	Unjoined func(ctx context.Context, claim *karpv1.NodeClaim) (bool, error)
}

// Interruptions acts on the messages of the interruption queue.
type Interruptions struct {
	config  Config
	metrics *metrics
}

// New returns an Interruptions; Run starts it.
func New(c Config) (*Interruptions, error) {
	missing := c.Client == nil || c.Launching == nil || c.Queue == nil || c.Checker == nil || c.Guard == nil || c.Leading == nil || c.Ender == nil
	if missing || c.Events == nil || c.Registerer == nil {
		return nil, errors.New("interrupt: Client, Launching, Queue, Checker, Guard, Leading, Ender, Events and Registerer are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	if c.Unjoined == nil {
		c.Unjoined = func(context.Context, *karpv1.NodeClaim) (bool, error) { return false, nil }
	}
	m, err := newMetrics(c.Registerer, c.Leading)
	if err != nil {
		return nil, err
	}
	return &Interruptions{config: c, metrics: m}, nil
}

// Run reads the queue until ctx ends, while leading.
func (i *Interruptions) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	slots := make(chan struct{}, batches)
	queue := outage{metrics: i.metrics}
	for {
		select {
		case <-ctx.Done():
			return nil
		case slots <- struct{}{}:
		}
		effects, cancel, err := i.config.Guard.Wait(ctx)
		if err != nil {
			return nil
		}
		b, err := i.receive(effects)
		wait := time.Duration(0)
		switch {
		case ctx.Err() != nil: // Stopping; see above.
		case errors.Is(err, leadership.ErrLost):
		case err != nil:
			wait = queue.failed(ctx, err)
		default:
			queue.worked(ctx)
			wait = b.pause
		}
		working.Go(func() {
			defer func() { <-slots }()
			defer cancel()
			i.work(effects, b)
		})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// receive receives messages once.
func (i *Interruptions) receive(ctx context.Context) (*batch, error) {
	out := &batch{}
	start := time.Now()
	messages, err := i.config.Queue.Receive(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return out, cause
		}
		return out, fmt.Errorf("receive: %w", err)
	}
	out.messages = messages
	if len(messages) == 0 && time.Since(start) < idle {
		out.pause = idle // The call did not wait: there is no queue.
	}
	return out, nil
}

// work handles all messages of a batch concurrently.
func (i *Interruptions) work(ctx context.Context, b *batch) {
	var wg sync.WaitGroup
	for _, m := range b.messages {
		wg.Go(func() { i.handle(ctx, m) })
	}
	wg.Wait()
}

// handle acts on one message and deletes it once that is recorded. After an error the queue delivers it again.
func (i *Interruptions) handle(ctx context.Context, m cloud.Message) {
	ctx, cancel := context.WithTimeout(ctx, handleTimeout)
	defer cancel()
	log := klog.FromContext(ctx)
	defer caught(log, m)
	if m.Err != nil {
		i.metrics.received.WithLabelValues(unreadable).Inc()
		log.Error(m.Err, "Deleting an interruption message that cannot be read")
		i.delete(ctx, m)
		return
	}
	i.metrics.received.WithLabelValues(string(m.Kind)).Inc()
	failed := make([]bool, len(m.InstanceIDs))
	var wg sync.WaitGroup
	for n, id := range m.InstanceIDs {
		wg.Go(func() {
			failed[n] = true // Unless apply returns.
			defer caught(log, m)
			recorded, err := i.apply(ctx, m, id)
			if err != nil {
				log.Error(err, "Could not act on an interruption; the queue will deliver it again", "kind", m.Kind, "instanceID", id)
			}
			failed[n] = !recorded || err != nil
		})
	}
	wg.Wait()
	if !slices.Contains(failed, true) {
		i.delete(ctx, m)
	}
}

// caught ends a panic of the goroutine that defers it.
func caught(log klog.Logger, m cloud.Message) {
	if cause := recover(); cause != nil {
		log.Error(nil, "An interruption message made the launcher panic; the queue will deliver it again", "kind", m.Kind, "instanceIDs", m.InstanceIDs, "panic", cause)
	}
}

func (i *Interruptions) delete(ctx context.Context, m cloud.Message) {
	if err := i.config.Queue.Delete(ctx, m.Receipt); err != nil {
		klog.FromContext(ctx).Error(err, "Could not delete an interruption message; it will be delivered again", "kind", m.Kind)
		return
	}
	i.metrics.deleted.Inc()
	if !m.Time.IsZero() {
		i.metrics.latency.Observe(time.Since(m.Time).Seconds())
	}
}

// apply acts on one instance of a message and reports whether that is recorded.
func (i *Interruptions) apply(ctx context.Context, m cloud.Message, instanceID string) (bool, error) {
	effect := EffectOf(m.Kind)
	if effect == (Effect{}) {
		return true, nil
	}
	unsure, err := i.unsure(ctx, m, time.Now())
	if err != nil {
		return false, err
	}
	claim, err := i.claimOf(ctx, instanceID)
	if err != nil {
		return false, err
	}
	if claim == nil {
		// The instance belongs to another cluster, or to a launch that is being recorded: then the message must be delivered again.
		return !unsure, nil
	}
	// What EC2 does to an instance whose node drains anyway matters if it does not wait for the drain.
	begun := claim.DeletionTimestamp != nil && !terminate.Overtakes(claim, string(m.Kind))
	if begun || m.Kind == cloud.InstanceStopped && stoppedByUs(claim, m.Time) {
		return true, nil
	}
	if !i.config.Ours(claim) {
		return false, nil // The message stays in the queue, for the Karpenter that manages the claim.
	}
	node, err := i.nodeOf(ctx, claim)
	if err != nil {
		return false, err
	}
	if effect.Leave {
		if err := i.cordon(ctx, node, m.Kind); err != nil {
			return false, err
		}
	}
	i.record(ctx, claim, node, effect)
	if !effect.Leave {
		return true, nil
	}
	return true, i.leave(ctx, claim, node, m)
}

// cordon has no more pods placed on a node whose instance EC2 takes: this comes before anything else. A node that may stay is cordoned once its NodeClaim is
// deleted, as nothing else would take the cordon away.
func (i *Interruptions) cordon(ctx context.Context, node *corev1.Node, kind cloud.MessageKind) error {
	if node == nil || !kind.EndsInstance() {
		return nil
	}
	return i.config.Ender.Cordon(ctx, node.Name, string(kind))
}

// stoppedByUs reports whether a message of a time is about a stop of a standby buffer's instance: messages may come after it was started again.
func stoppedByUs(claim *karpv1.NodeClaim, at time.Time) bool {
	s := record.StandbyOf(claim)
	return s.Off() || s.State == record.StandbyAwake && !at.After(s.Since)
}

// leave begins the termination of a claim. Package terminate plans room for its pods before the first eviction.
func (i *Interruptions) leave(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, m cloud.Message) error {
	if m.Kind == cloud.InstanceTerminated && !conditions.ClaimIs(claim, karpv1.ConditionTypeRegistered) {
		if ended, err := i.config.Unjoined(ctx, claim); ended || err != nil {
			return err
		}
	}
	log := klog.FromContext(ctx)
	log.Info("initiating delete from interruption message", "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName, "messageKind", m.Kind)
	if err := i.config.Ender.BeginNoticed(ctx, claim, string(m.Kind), m.Time); err != nil {
		return err
	}
	i.config.Events.Eventf(claim, corev1.EventTypeWarning, "TerminatingOnInterruption", "Interruption triggered termination for the NodeClaim")
	if node != nil {
		i.config.Events.Eventf(node, corev1.EventTypeWarning, "TerminatingOnInterruption", "Interruption triggered termination for the Node")
	}
	return nil
}

// record writes the Events about the claim, its node and the node's pods.
func (i *Interruptions) record(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, e Effect) {
	i.config.Events.Eventf(claim, e.EventType, e.EventReason, "%s", e.EventMessage)
	if node == nil {
		return
	}
	i.config.Events.Eventf(node, e.EventType, e.EventReason, "%s", e.EventMessage)
	pods := &corev1.PodList{}
	if err := i.config.Client.List(ctx, pods, client.MatchingFields{index.PodNodeName: node.Name}); err != nil {
		klog.FromContext(ctx).Error(err, "Could not list the pods of an interrupted node", "node", klog.KObj(node))
		return
	}
	for j := range pods.Items {
		i.config.Events.Eventf(&pods.Items[j], e.EventType, e.EventReason, "%s (node %s)", e.EventMessage, node.Name)
	}
}

func (i *Interruptions) claimOf(ctx context.Context, instanceID string) (*karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := i.config.Client.List(ctx, list, client.MatchingFields{index.ClaimInstanceID: instanceID}); err != nil {
		return nil, fmt.Errorf("finding NodeClaim of instance %s: %w", instanceID, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

func (i *Interruptions) nodeOf(ctx context.Context, claim *karpv1.NodeClaim) (*corev1.Node, error) {
	if claim.Status.NodeName == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	err := i.config.Client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("getting Node %s of NodeClaim %s: %w", claim.Status.NodeName, claim.Name, err)
	}
	return node, nil
}
