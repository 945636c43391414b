package launch

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/liveness"
)

// Cloud is the part of cloud.Cloud that launches need.
type Cloud interface {
	// InstanceTypes lists what can be launched from a resolved class.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Launch is one CreateFleet call.
	Launch(ctx context.Context, in cloud.LaunchInput) (cloud.LaunchOutput, error)
	// Settled declares that a launch will not be repeated.
	Settled(launchID string)
	// Instances describes instances.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
	// Tag writes tags on one instance.
	Tag(ctx context.Context, instanceID string, tags map[string]string) error
	// Terminate terminates instances.
	Terminate(ctx context.Context, instanceIDs []string) error
	// ShiftedZones returns the IDs of the zones that a zonal shift is away from, and whether they are known yet.
	ShiftedZones() (zones map[string]bool, known bool)
}

// Config holds the dependencies of a Launcher. Every field is required unless its comment says otherwise.
type Config struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Cloud has the instances.
	Cloud Cloud
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Failed is called for each claim that could not be launched, before it is deleted; reason is one CamelCase word.
	Failed func(claim *karpv1.NodeClaim, reason, message string)
	// Leading reports whether this replica leads: only then it has the metric of claims that wait.
	Leading func() bool
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// MinValuesBestEffort launches even if fewer values are left than a requirement's minValues, as Karpenter's setting minValuesPolicy
	// BestEffort does; otherwise the claim fails. Not required.
	MinValuesBestEffort bool
	// Bindings puts on a claim whose launch is about to be written when its promised pods are bound; written is called once it is. Not
	// required.
	Bindings func(ctx context.Context, claim *karpv1.NodeClaim) (written func())
	// Overlaid returns the instance types of a NodePool whose NodeOverlays make them differ from its class's, and whether they do. Not
	// required.
	Overlaid func(ctx context.Context, pool string) ([]catalog.InstanceType, bool)
}

// The launcher's times.
const (
	// lookFor is how long the launcher looks for the instances of a call whose answer was lost: EC2 is eventually consistent.
	lookFor = 30 * time.Second
	// recent is the maximum age of claims that count as just recorded, in whole seconds as Kubernetes counts.
	recent = 2 * time.Second
	// keepFresh is how long the ID of a recorded claim counts as one without a call, from its release on: a repeated request comes sooner.
	keepFresh = time.Minute
	// lookEvery is the period of asking EC2 for the instances of a lost call, glanceEvery that for instances it just launched.
	lookEvery   = 2 * time.Second
	glanceEvery = 100 * time.Millisecond
	// silentAfter is how long an attempt may have no answer before its claims say so: longer than looking for instances.
	silentAfter = 40 * time.Second
	// firstRetry and lastRetry bound the wait after a transient error.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Launcher launches claims. Enqueue and Forget may be called from any goroutine.
type Launcher struct {
	config  Config
	metrics *metrics
	wake    chan struct{}
	tags    *tags
	// working is the number of groups being launched.
	working atomic.Int32
	waits   *waits
	lists   *claimLists
	loop    liveness.Loop

	mu    sync.Mutex
	queue []*karpv1.NodeClaim
	// known are the claims that this process is launching or has launched; they are dropped when they are deleted.
	known map[types.UID]struct{}
	// held counts, by name, the callers that delay a claim because it is being recorded together with others.
	held map[string]int
	// fresh are the launch IDs that claims of this process were recorded with, and whose call it has not begun.
	fresh map[string]bool
	// lost are the IDs of calls of earlier processes that a group of this process handles, with the claims enqueued meanwhile: the group
	// takes them, or they are enqueued again.
	lost map[string][]*karpv1.NodeClaim
}

// New returns a Launcher that starts with Run.
func New(c Config) (*Launcher, error) {
	if c.Client == nil || c.Reader == nil || c.Cloud == nil || c.Guard == nil || c.Events == nil || c.Failed == nil || c.Leading == nil || c.Registerer == nil {
		return nil, errors.New("launch: Client, Reader, Cloud, Guard, Events, Failed, Leading and Registerer are required")
	}
	if c.Bindings == nil {
		c.Bindings = func(context.Context, *karpv1.NodeClaim) func() { return func() {} }
	}
	m, err := newMetrics(c.Registerer, c.Leading)
	if err != nil {
		return nil, err
	}
	return &Launcher{
		config: c, metrics: m, wake: make(chan struct{}, 1), tags: newTags(), waits: newWaits(m.waiting), lists: newClaimLists(c.Reader),
		known: map[types.UID]struct{}{}, held: map[string]int{}, fresh: map[string]bool{}, lost: map[string][]*karpv1.NodeClaim{},
	}, nil
}

// Enqueue queues claims without an instance and returns at once; claims that are being launched or are launched are ignored.
func (l *Launcher) Enqueue(claims ...*karpv1.NodeClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		_, known := l.known[c.UID]
		if !known && c.Status.ProviderID == "" && c.DeletionTimestamp.IsZero() {
			l.known[c.UID] = struct{}{}
			l.queue = append(l.queue, c.DeepCopy())
		}
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Forget drops the state of a claim: call it when the claim is deleted.
func (l *Launcher) Forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, uid)
}

func (l *Launcher) take() []*karpv1.NodeClaim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out, waiting []*karpv1.NodeClaim
	for _, c := range l.queue {
		if l.held[c.Name] > 0 {
			waiting = append(waiting, c)
		} else {
			out = append(out, c)
		}
	}
	l.queue = waiting
	return out
}

// know records claims that a group added.
func (l *Launcher) know(claims []*karpv1.NodeClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		l.known[c.UID] = struct{}{}
	}
}

// claim makes the caller the one group that handles a call of an earlier process. It returns false if another group does; the claims then
// wait for that one.
func (l *Launcher) claim(id string, claims []*karpv1.NodeClaim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting, taken := l.lost[id]
	if !taken {
		claims = nil
	}
	l.lost[id] = append(waiting, claims...)
	return !taken
}

// requeueMissed ends what claim began. It enqueues the waiting claims that the group did not add, because they were written
// after its search.
func (l *Launcher) requeueMissed(id string, took map[types.UID]bool) {
	l.mu.Lock()
	var missed []*karpv1.NodeClaim
	for _, c := range l.lost[id] {
		if !took[c.UID] {
			missed = append(missed, c)
			delete(l.known, c.UID)
		}
	}
	delete(l.lost, id)
	l.mu.Unlock()
	l.Enqueue(missed...)
}

// Run launches claims until ctx ends, and returns once every group has stopped.
func (l *Launcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { l.writeTags(ctx) })
	defer l.loop.Stop()
	round := time.NewTicker(liveness.Period)
	defer round.Stop()
	for {
		l.loop.Tick()
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-round.C:
		}
		for _, group := range groups(l.take()) {
			l.working.Add(1)
			wg.Go(func() {
				defer l.working.Add(-1)
				l.work(ctx, group)
			})
		}
	}
}

// Alive returns an error if the loop of Run hangs; see package liveness.
func (l *Launcher) Alive(r *http.Request) error { return l.loop.Check(r) }

// Busy reports whether launches are in progress: then there may be instances that no NodeClaim in the cache names yet. Safe for concurrent
// use.
func (l *Launcher) Busy() bool { return l.working.Load() > 0 }

// Price writes into the annotations of a claim which offering its instance is now, and what its node costs, as a launch does.
func (l *Launcher) Price(ctx context.Context, claim *karpv1.NodeClaim, i cloud.Instance) error {
	_, types, err := l.config.offers(ctx, claim)
	if err == nil {
		price(claim, i, types[i.InstanceType])
	}
	return err
}

// offers returns a claim's class and the current instance types of its NodePool, by name.
func (c Config) offers(ctx context.Context, claim *karpv1.NodeClaim) (*awsv1.EC2NodeClass, map[string]catalog.InstanceType, error) {
	class := &awsv1.EC2NodeClass{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.NodeClassRef.Name}, class); err != nil {
		return class, nil, err
	}
	list, err := c.Cloud.InstanceTypes(ctx, class)
	if err != nil {
		return class, nil, err
	}
	return class, byName(overlaidTypes(c.Overlaid).or(ctx, claim.Labels[karpv1.NodePoolLabelKey], list)), nil
}

// terminate terminates instances, but for those in zones that a zonal shift is away from: package collect does after the shift.
func (c Config) terminate(ctx context.Context, instances []cloud.Instance) error {
	shifted, _ := c.Cloud.ShiftedZones()
	var ids []string
	for _, i := range instances {
		if !shifted[i.ZoneID] {
			ids = append(ids, i.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	klog.FromContext(ctx).Info("Terminating instances that no NodeClaim needs", "instanceIDs", ids)
	return c.Cloud.Terminate(ctx, ids)
}
