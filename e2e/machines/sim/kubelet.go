package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/apimachinery/lease"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The kubelet's own periods: defaults of KubeletConfiguration.
const (
	statusInterval  = 10 * time.Second
	reportInterval  = 5 * time.Minute
	leaseDuration   = 40 * time.Second
	leaseInterval   = 10 * time.Second
	registerFirst   = 100 * time.Millisecond
	registerLongest = 7 * time.Second
	fastStatusRetry = 100 * time.Millisecond
	maxImages       = 50
)

// kubelet is the simulated kubelet of one machine. All its state belongs to the goroutine of run.
type kubelet struct {
	host    host
	client  kubernetes.Interface
	nodes   corelisters.NodeLister
	pods    cache.Indexer
	slots   slots
	log     logr.Logger
	address func() uint32
	// wake is called when a pod of this node has changed. It does not block.
	wake func()
	// light is true where the kubelet reports less.
	light bool

	planner planner
	// network is how long after the Node's registration the network plugin is ready: its agent is a pod on the node.
	network time.Duration
	admit   lifecycle.PodAdmitHandler
	writer  *writer
	known   map[types.UID]*podState
	// nodeDue is when the Node's status is checked next, reported when it was last written.
	nodeDue, reported time.Time
	// looked is what the Node's status was last computed from. While it is unchanged, so is the status.
	looked lookedAt
	// devicesAt is when the device plugin registers; zero until the node was reported ready.
	devicesAt time.Time
}

// lookedAt identifies a version of the Node and what the kubelet observed. Images are never removed.
type lookedAt struct {
	node                  *corev1.Node
	networkReady, devices bool
	images                int
}

// name returns the Node's name.
func (k *kubelet) name() string { return k.host.instance.PrivateDNSName }

// pool returns the NodePool of the machine's node.
func (k *kubelet) pool() string { return k.host.config.Labels[karpv1.NodePoolLabelKey] }

// run runs the kubelet until ctx ends, when the machine is switched off. It receives from woken when a pod of this node has changed.
func (k *kubelet) run(ctx context.Context, woken <-chan struct{}) {
	k.register(ctx)
	k.planner.networkReady = time.Now().Add(k.network)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { k.heartbeat(ctx) })
	wg.Go(func() { k.writer.run(ctx) })

	k.nodeDue = time.Now()
	var podsDue time.Time
	dirty := true
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		if dirty || (!podsDue.IsZero() && !now.Before(podsDue)) {
			podsDue, dirty = k.syncPods(ctx, now), false
		}
		if !now.Before(k.nodeDue) {
			k.nodeDue = k.syncNode(ctx, now)
		}
		due := k.nodeDue
		if !podsDue.IsZero() && podsDue.Before(due) {
			due = podsDue
		}
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-woken:
			dirty = true
		case <-ctx.Done():
		}
	}
}

// register creates the Node, or reconciles the existing one, and retries until it succeeds.
func (k *kubelet) register(ctx context.Context) {
	for wait := registerFirst; ctx.Err() == nil; wait = min(2*wait, registerLongest) {
		var err error
		k.slots.do(ctx, func() { err = k.tryRegister(ctx) })
		if err == nil {
			return
		}
		k.log.V(2).Info("Could not register the node, will try again", "err", err)
		sleep(ctx, wait)
	}
}

func (k *kubelet) tryRegister(ctx context.Context) error {
	initial := k.host.initialNode(k.observe(time.Now()))
	_, err := k.client.CoreV1().Nodes().Create(ctx, initial, metav1.CreateOptions{})
	if err == nil || (!apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err)) {
		return err
	}
	existing, err := k.client.CoreV1().Nodes().Get(ctx, k.name(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	original := existing.DeepCopy()
	if !reconcile(initial, existing) {
		return nil
	}
	_, _, err = nodeutil.PatchNodeStatus(k.client.CoreV1(), types.NodeName(k.name()), original, existing)
	return err
}

// heartbeat renews the Lease with the kubelet's own code, which creates the Lease or takes over the existing one. The node
// lifecycle controller measures the period in real time, so Speed does not change it.
func (k *kubelet) heartbeat(ctx context.Context) {
	owner := func(l *coordinationv1.Lease) error { return k.own(ctx, l) }
	lease.NewController(clock.RealClock{}, k.client, k.name(), int32(leaseDuration/time.Second), nil, leaseInterval,
		k.name(), corev1.NamespaceNodeLease, owner).Run(ctx)
}

// own makes the Node the owner of its Lease.
func (k *kubelet) own(ctx context.Context, l *coordinationv1.Lease) error {
	if len(l.OwnerReferences) > 0 {
		return nil
	}
	node, err := k.client.CoreV1().Nodes().Get(ctx, k.name(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("renewing Lease %s: %w", k.name(), err)
	}
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	return nil
}

// observe returns what the kubelet sees of its machine at now.
func (k *kubelet) observe(now time.Time) observation {
	o := observation{
		now:          now,
		networkReady: !now.Before(k.planner.networkReady),
		devices:      !k.devicesAt.IsZero() && !now.Before(k.devicesAt),
	}
	if k.light {
		return o // Each image would be one more status.
	}
	for _, name := range k.planner.disk.list(now, maxImages) {
		o.images = append(o.images, corev1.ContainerImage{Names: []string{name}, SizeBytes: 100 * mib})
	}
	return o
}

// syncNode reports the machine's status if it has changed or was not reported for long. It returns when to check again. Like
// the kubelet's fast path, it reports at once that the node became ready.
func (k *kubelet) syncNode(ctx context.Context, now time.Time) time.Time {
	next := now.Add(k.planner.source.Scale(statusInterval))
	if k.light {
		next = now.Add(statusInterval)
	}
	if now.Before(k.planner.networkReady) && k.planner.networkReady.Before(next) {
		next = k.planner.networkReady
	}
	original, err := k.nodes.Get(k.name())
	if err != nil {
		k.log.V(4).Info("The node is not in the cache", "err", err)
		if k.reported.IsZero() {
			return now.Add(fastStatusRetry) // The informer lags.
		}
		return next // The Node was deleted. A kubelet registers only once.
	}
	k.prefetch(original, now)
	observed := k.observe(now)
	seen := lookedAt{original, observed.networkReady, observed.devices, len(observed.images)}
	if seen == k.looked && now.Sub(k.reported) < reportInterval {
		return next
	}
	k.looked = seen
	node := original.DeepCopy()
	k.host.setStatus(node, observed)
	if !statusChanged(&original.Status, &node.Status) && now.Sub(k.reported) < reportInterval {
		return next
	}
	k.slots.do(ctx, func() {
		_, _, err = nodeutil.PatchNodeStatus(k.client.CoreV1(), types.NodeName(k.name()), original, node)
	})
	switch {
	case ctx.Err() != nil:
		return next
	case err != nil:
		k.log.V(2).Info("Could not write the node's status, will try again", "err", err)
		k.looked = lookedAt{}
		return now.Add(fastStatusRetry)
	}
	k.reported = now
	if isReady(node) && !isReady(original) {
		k.becameReady(node, now)
	}
	return next
}

func (k *kubelet) becameReady(node *corev1.Node, now time.Time) {
	k.log.V(2).Info("The node is ready")
	if k.devicesAt.IsZero() {
		k.devicesAt = now.Add(k.planner.source.Draw(k.planner.times.Devices, "devices"))
	}
	k.writer.event(newEvent(&corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: types.UID(node.Name)}, k.name(),
		corev1.EventTypeNormal, "NodeReady", fmt.Sprintf("Node %s status is now: NodeReady", node.Name)))
}

// newEvent returns an Event of the kubelet about the object.
func newEvent(about *corev1.ObjectReference, host, kind, reason, message string) *corev1.Event {
	now := metav1.Now()
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.Name, now.UnixNano())},
		InvolvedObject: *about, Reason: reason, Message: message, Type: kind, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source:              corev1.EventSource{Component: "kubelet", Host: host},
		ReportingController: "kubelet", ReportingInstance: host,
	}
}
