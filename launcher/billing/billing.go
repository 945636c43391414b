package billing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
	"github.com/slipway-k8s/slipway/launcher/index"
)

const (
	// period is how often the cluster is observed, and writePeriod how often the record is written.
	period      = 10 * time.Second
	writePeriod = time.Minute
	// idle is the least ratio of the pause between two observations to what one takes: of thousands of nodes with tens of thousands of pods it takes a
	// second.
	idle = 60
	// longest is the longest pause: what comes and goes between two observations is not in the bill.
	longest = time.Minute
	// within bounds one round.
	within = 30 * time.Second
)

// Config holds the dependencies of a Recorder. Every field but Overlay is required.
type Config struct {
	// Namespace has the ConfigMaps; Cluster is the cluster's name in them.
	Namespace, Cluster string
	// Client reads from the cache, and writes the ConfigMaps.
	Client client.Client
	// Cache reads pods, NodeClaims and Nodes.
	Cache index.Cache
	// Reader reads the ConfigMaps, from the API server.
	Reader client.Reader
	// Informers are those that Client reads from.
	Informers cache.Informers
	// Leading reports whether the launcher may act: only then it observes and writes.
	Leading func() bool
	// Types returns the instance types by EC2NodeClass, with their prices.
	Types func(ctx context.Context) map[string][]catalog.InstanceType
	// Overlay returns what NodeOverlays make of them; nil without the feature gate.
	Overlay func(ctx context.Context, types map[string][]catalog.InstanceType) (overlay.Result, error)
	// Commitments returns the account's commitments.
	Commitments func() []commitment.Commitment
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
}

// Recorder keeps the record of what nodes cost.
type Recorder struct {
	config  Config
	store   store
	through prometheus.Gauge
	gone    gone
	pods    index.PerNode[[]bill.Pod]

	// The following are of Run's goroutine alone. ledger is nil while the launcher does not lead, written is when it was written last.
	ledger  *bill.Ledger
	written time.Time
	// took is how long the last observation took.
	took time.Duration
	// problem is why the last round failed; empty if it did not.
	problem string
}

// New returns a Recorder; Run starts it.
func New(c Config) (*Recorder, error) {
	if c.Namespace == "" || c.Client == nil || !c.Cache.Complete() || c.Reader == nil || c.Informers == nil || c.Leading == nil || c.Types == nil || c.Commitments == nil || c.Registerer == nil {
		return nil, errors.New("billing: Namespace, Client, Cache, Reader, Informers, Leading, Types, Commitments and Registerer are required")
	}
	out := &Recorder{config: c, store: store{c.Client, c.Reader, c.Namespace}, through: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slipway_bill_recorded_timestamp_seconds", Help: "Until when the record of what nodes cost is written; 0 if this replica has not written it.",
	})}
	if err := c.Registerer.Register(out.through); err != nil {
		return nil, fmt.Errorf("billing: %w", err)
	}
	return out, nil
}

// Run observes and writes until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	if err := r.gone.follow(ctx, r.config.Informers); err != nil {
		return err
	}
	for {
		began := time.Now()
		r.round(ctx, began)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(period-time.Since(began), min(idle*r.took, longest))):
		}
	}
}

// round observes once. The log has each reason of a failure once; the record goes on at the next round.
func (r *Recorder) round(ctx context.Context, now time.Time) {
	if !r.config.Leading() {
		r.ledger = nil // Another replica goes on with the record.
		r.gone.take()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := r.record(ctx, now)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != r.problem {
		klog.FromContext(ctx).Error(err, "The bill could not be recorded; it is tried again")
	}
	r.problem = problem
}

func (r *Recorder) record(ctx context.Context, now time.Time) error {
	if r.ledger == nil {
		found, err := r.store.load(ctx, now)
		if err != nil {
			return err
		}
		r.ledger, r.written = found, now
		klog.FromContext(ctx).V(2).Info("The bill is recorded", "namespace", r.config.Namespace, "since", found.Start, "through", found.Through)
	}
	began := time.Now()
	gone := r.gone.take() // Before the others are read, which then have none of them.
	in, err := r.objects(ctx, now, gone)
	if err != nil {
		r.gone.putBack(gone) // They are charged with the next observation.
		return err
	}
	r.ledger.Observe(Look(in))
	r.took = time.Since(began)
	if now.Sub(r.written) < writePeriod {
		return nil
	}
	if err := r.store.write(ctx, r.config.Cluster, r.ledger); err != nil {
		if errors.Is(err, errOvertaken) {
			r.ledger = nil
		}
		return err
	}
	r.written = now
	r.through.Set(float64(r.ledger.Through.Unix()))
	return nil
}

// objects reads the cluster from the cache. gone are NodeClaims that it has no more.
func (r *Recorder) objects(ctx context.Context, now time.Time, gone []*karpv1.NodeClaim) (Objects, error) {
	var pools karpv1.NodePoolList
	claims, nodes, err := r.config.Cache.Fleet(ctx)
	if err = errors.Join(err, r.config.Client.List(ctx, &pools, client.UnsafeDisableDeepCopy)); err != nil {
		return Objects{}, fmt.Errorf("observing the cluster for the bill: %w", err)
	}
	all := append(claims, gone...)
	pods, err := podsOn(ctx, r.config.Cache.Pods, &r.pods, all)
	if err != nil {
		return Objects{}, err
	}
	out := Objects{
		Now: now, Claims: all, Nodes: nodes, Pods: pods, Pools: pools.Items, Types: r.config.Types(ctx), Commitments: r.config.Commitments(),
	}
	if r.config.Overlay == nil {
		return out, nil
	}
	result, err := r.config.Overlay(ctx, out.Types)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The bill has the prices of the NodeOverlays that were read last", "err", err)
	}
	out.Types, out.Overlaid = maps.Clone(out.Types), result.Keys
	maps.Copy(out.Types, result.Lists)
	return out, nil
}
