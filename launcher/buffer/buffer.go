package buffer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/buffersize"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/record"
)

const (
	// period is the time between two passes.
	period = time.Second
	// againAfter is when the scheduler is asked again although nothing has changed: prices and limits do. It is sooner where pods have no room.
	againAfter, againMissing = 30 * time.Second, 5 * time.Second
	// knownFor is for how long after a pass the nodes of buffers count as known.
	knownFor = 5 * time.Minute
	// passAtMost bounds the reading of a pass.
	passAtMost = 30 * time.Second
	// unansweredFor is for how long empty nodes stay because of a namespace about which there was no answer yet: one that cannot be planned does
	// not keep the nodes of all others.
	unansweredFor = time.Minute
	// eventEvery is the least time between two equal Events on one object.
	eventEvery = 15 * time.Minute
)

// Asker asks the scheduler; server.BufferAsker is one.
type Asker interface {
	// PlaceBuffers asks for room for the pods of the buffers of a namespace.
	PlaceBuffers(ctx context.Context, q *api.PlaceBuffers) (*api.PlaceBuffersAnswer, error)
	// Stream numbers the scheduler's connection. A scheduler that has just started knows nothing of earlier answers.
	Stream() uint64
}

// Config holds the dependencies of a Controller. All but Off are required.
type Config struct {
	// Client reads from the cache, and writes.
	Client client.Client
	// Cache reads pods, NodeClaims and Nodes from the same cache.
	Cache index.Cache
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Leading reports whether this process leads: only then the metrics have values.
	Leading func() bool
	// Asker asks the scheduler.
	Asker Asker
	// Events records Events.
	Events announce.EventRecorder
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Off means that the feature gate is off: no room is kept, and buffers that only slipway could meet say so. Optional.
	Off bool
}

// Controller keeps room for the pods of CapacityBuffers. All but Needed belongs to Run's goroutine.
type Controller struct {
	config     Config
	metrics    *metrics
	namespaces map[string]*namespace
	// onNode has a hash of the pods of each Node.
	onNode index.PerNode[uint64]
	// unanswered is since when there is no answer about a namespace that had none before.
	unanswered map[string]time.Time
	// recorded is when each Event was last recorded, by reason and object.
	recorded map[string]time.Time

	mu sync.Mutex
	// nodes and claims have room for pods of buffers, by name of the Node and of the NodeClaim, with one of these buffers.
	nodes, claims map[string]string
	// disks are of the standby buffers, by UID.
	disks map[string]disk
	// waiting are the standby buffers whose room is not all there, by UID, with their names.
	waiting map[string]string
	// known is when they were last complete, and stream the scheduler's connection then.
	known  time.Time
	stream uint64
}

// namespace is what is remembered of the buffers of a namespace.
type namespace struct {
	// sum of all that the last answer depends on, and when it came. present is that sum now: where the two differ, the answer is one to another question.
	sum, present uint64
	at           time.Time
	// missing means that pods have no room.
	missing bool
	// places are those of the last answer, by the buffer's UID.
	places map[types.UID]*api.BufferPlaces
}

// answered reports whether there is an answer to the present question.
func (n *namespace) answered() bool { return n != nil && n.sum == n.present }

// New returns a Controller; Run starts it.
func New(c Config) (*Controller, error) {
	if c.Client == nil || !c.Cache.Complete() || c.Guard == nil || c.Leading == nil || c.Asker == nil || c.Events == nil || c.Registerer == nil {
		return nil, errors.New("buffer: Client, Cache, Guard, Leading, Asker, Events and Registerer are required")
	}
	m, err := newMetrics(c.Registerer, c.Leading)
	return &Controller{config: c, metrics: m, namespaces: map[string]*namespace{}, unanswered: map[string]time.Time{}, recorded: map[string]time.Time{}}, err
}

// Run makes one pass per period, or now and then while the feature gate is off, until ctx ends, while this process leads.
func (c *Controller) Run(ctx context.Context) error {
	failed := func(err error) {
		klog.FromContext(ctx).Error(err, "Keeping room for CapacityBuffers failed, will retry")
	}
	every := period
	if c.config.Off {
		// Without the CRD, each look asks the API server whether it has come.
		every = againAfter
	}
	leadership.Every(ctx, c.config.Guard, every, failed, c.Pass)
	return nil
}

// Needed returns which buffer has room on the node of a NodeClaim; empty for none. Until all are known, each node may be needed: what another scheduler
// had answered is not known. A scheduler that loses the Lease exits, so that there is another stream before this process leads again.
func (c *Controller) Needed(claim *karpv1.NodeClaim) string {
	stream := c.config.Asker.Stream()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != stream || time.Since(c.known) > knownFor {
		return "room for CapacityBuffers is not planned yet"
	}
	for _, name := range []string{c.claims[claim.Name], c.nodes[claim.Status.NodeName]} {
		if name != "" {
			return "CapacityBuffer " + name + " keeps room on it"
		}
	}
	if name := c.waiting[record.StandbyOf(claim).Buffer]; name != "" && record.Outdated(claim) {
		return "CapacityBuffer " + name + " has no other instance in its place yet"
	}
	return ""
}

// item is a buffer in one pass.
type item struct {
	stored     *autoscalingv1beta1.CapacityBuffer
	resolution buffersize.Resolution
	// booking is that of a one-shot buffer; nil for the others, and where there is no template, but for one whose time is over.
	booking *buffersize.Booking
	// settled means that its status stays as it is, and that nothing else of it is known.
	settled bool
	// wanted is the question about it; nil where it has no pods.
	wanted *api.Buffer
	// disk is of a standby buffer, and the zero value of all others.
	disk disk
	// held is why nothing is launched for a standby buffer for now; empty where it may be.
	held string
}

// Pass resolves all buffers, asks about those of namespaces for which anything has changed, and writes their status. ctx ends with leadership.
func (c *Controller) Pass(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, passAtMost)
	defer cancel()
	if c.config.Off {
		return c.sayOff(reading)
	}
	pods, stream := c.onNodes(reading), c.config.Asker.Stream()
	items, err := c.items(reading, pods)
	if err != nil {
		return err
	}
	var errs []error
	if err := c.hold(ctx, items); err != nil {
		return err
	}
	if len(items)+len(c.namespaces) > 0 {
		cluster, err := c.clusterSum(ctx)
		if err != nil {
			return err
		}
		cluster += stream
		names := c.withBuffers(items)
		for _, name := range c.gone(names) {
			if _, err := c.ask(ctx, name, nil, names); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(c.namespaces, name)
		}
		for _, name := range names {
			if err := c.refresh(ctx, name, items[name], names, cluster); err != nil {
				errs = append(errs, fmt.Errorf("keeping room for the CapacityBuffers of namespace %s: %w", name, err))
			}
		}
	}
	waiting, err := c.waitingBuffers(reading, items)
	if err != nil {
		errs = append(errs, err)
	}
	c.publish(items, waiting)
	if c.complete(items) {
		c.know(stream)
	}
	return errors.Join(append(errs, c.write(ctx, items)...)...)
}

// sayOff records on each buffer of slipway's own strategies why it has no room. Another autoscaler may keep room for the others.
func (c *Controller) sayOff(ctx context.Context) error {
	buffers, err := c.buffers(ctx)
	if err != nil {
		return err
	}
	c.forgetRecorded()
	for i := range buffers {
		if strategy := buffersize.Strategy(&buffers[i].Spec); buffersize.Own(strategy) {
			c.record(&buffers[i], "CapacityBufferOff", "No room is kept: strategy "+strategy+" needs the launcher's feature gate CapacityBuffer")
		}
	}
	return nil
}

// buffers lists all buffers, which are the cache's. Without the CRD there are none.
func (c *Controller) buffers(ctx context.Context) ([]autoscalingv1beta1.CapacityBuffer, error) {
	list := &autoscalingv1beta1.CapacityBufferList{}
	if err := c.config.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("listing CapacityBuffers: %w", err)
	}
	return list.Items, nil
}

// complete reports whether there is an answer to the present question about each namespace, or has not been one for long.
func (c *Controller) complete(items map[string][]*item) bool {
	out, now, names := true, time.Now(), c.withBuffers(items)
	maps.DeleteFunc(c.unanswered, func(name string, _ time.Time) bool {
		return c.namespaces[name].answered() || !slices.Contains(names, name)
	})
	for _, name := range names {
		if c.namespaces[name].answered() {
			continue
		}
		if c.unanswered[name].IsZero() {
			c.unanswered[name] = now
		}
		out = out && now.Sub(c.unanswered[name]) >= unansweredFor
	}
	return out
}

// withBuffers returns the namespaces with pods of buffers, sorted.
func (c *Controller) withBuffers(items map[string][]*item) []string {
	var out []string
	for name, of := range items {
		if slices.ContainsFunc(of, func(it *item) bool { return it.wanted != nil }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// gone returns the namespaces that had pods of buffers and have none any more.
func (c *Controller) gone(names []string) []string {
	var out []string
	for name := range c.namespaces {
		if !slices.Contains(names, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// refresh asks about the buffers of a namespace, unless the last answer still holds.
func (c *Controller) refresh(ctx context.Context, name string, items []*item, names []string, cluster uint64) error {
	sum := sumOf(items, cluster)
	was := c.namespaces[name]
	if was != nil {
		was.present = sum
	}
	if was.answered() {
		again := againAfter
		if was.missing {
			again = againMissing
		}
		if time.Since(was.at) < again {
			return nil
		}
	}
	answer, err := c.ask(ctx, name, items, names)
	if err != nil {
		return err
	}
	is := &namespace{sum: sum, present: sum, at: time.Now(), places: map[types.UID]*api.BufferPlaces{}}
	for _, p := range answer.GetBuffers() {
		is.places[types.UID(p.GetUid())] = p
		is.missing = is.missing || p.GetNoRoom() != ""
	}
	for _, it := range items {
		if p := is.places[it.stored.UID]; it.held != "" && p.GetNoRoom() != "" {
			p.NoRoom = it.held
		}
	}
	c.namespaces[name] = is
	c.announce(items, is)
	return nil
}

// ask asks the scheduler about the buffers of a namespace.
func (c *Controller) ask(ctx context.Context, name string, items []*item, names []string) (*api.PlaceBuffersAnswer, error) {
	q := &api.PlaceBuffers{Namespace: name, Namespaces: names}
	for _, it := range items {
		if it.wanted != nil {
			q.Buffers = append(q.Buffers, it.wanted)
		}
	}
	answer, err := c.config.Asker.PlaceBuffers(ctx, q)
	if err == nil && answer.GetMessage() != "" {
		err = errors.New(answer.GetMessage())
	}
	return answer, err
}
