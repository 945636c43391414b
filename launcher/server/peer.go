package server

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// Peer is the version and identity that the scheduler in the same pod has sent. It is safe for concurrent use.
type Peer struct {
	versions *prometheus.GaugeVec
	streams  prometheus.Gauge

	mu sync.Mutex
	// asked means that a scheduler has sent its version since the process began; version is the last one sent.
	asked   bool
	version *api.Version
	// identity is the one of its leader election; empty before the scheduler has sent it.
	identity string
}

// NewPeer returns a Peer without a version, and registers its metrics. leading reports whether this replica leads: the scheduler of each replica
// receives the catalog, so the gauge of streams has no value in the others.
func NewPeer(registerer prometheus.Registerer, leading func() bool) (*Peer, error) {
	versions := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_protocol_info",
		Help: "1 for the versions of the contract that the launcher and the scheduler speak. With skew major nothing is launched or moved.",
	}, []string{"launcher", "scheduler", "skew"})
	streams := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slipway_catalog_streams", Help: "Streams by which the scheduler receives the launcher's catalog. Without a value while another replica leads.",
	})
	return &Peer{versions: versions, streams: streams}, errors.Join(registerer.Register(versions), registerer.Register(leadership.WhileLeading(streams, leading)))
}

// receives counts a stream that has sent the whole catalog, until its context ends.
func (p *Peer) receives(ctx context.Context) {
	p.streams.Inc()
	context.AfterFunc(ctx, p.streams.Dec)
}

// check records the version that the scheduler sent with a call, and returns an *api.IncompatibleError if the call is to be refused.
func (p *Peer) check(ctx context.Context, theirs *api.Version) error {
	skew := api.SkewOf(theirs)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked || !proto.Equal(p.version, theirs) {
		p.versions.Reset()
		p.versions.WithLabelValues(api.OwnVersion().Text(), theirs.Text(), string(skew)).Set(1)
		logger := klog.FromContext(ctx).WithValues("scheduler", theirs.Text(), "launcher", api.OwnVersion().Text())
		switch skew {
		case api.SkewMajor:
			logger.Error(nil, "The scheduler speaks another version of the contract and is refused: nothing is launched or moved until both are of one release")
		case api.SkewMinor:
			logger.Info("The scheduler speaks another minor version of the contract: what only one side knows is not used")
		case api.SkewNone:
			logger.V(2).Info("The scheduler speaks the same version of the contract")
		}
	}
	p.asked, p.version = true, theirs
	if skew == api.SkewMajor {
		return &api.IncompatibleError{Side: api.SideScheduler, Version: theirs}
	}
	return nil
}

// leads records the identity with which the scheduler takes part in leader election.
func (p *Peer) leads(ctx context.Context, identity string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.identity != identity {
		klog.FromContext(ctx).Info("The scheduler takes part in leader election", "identity", identity)
	}
	p.identity = identity
}

// Ready returns an error while the scheduler that called last is refused. It is a check of /readyz: a rollout of two incompatible images
// stops there.
func (p *Peer) Ready(*http.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked && api.SkewOf(p.version) == api.SkewMajor {
		return &api.IncompatibleError{Side: api.SideScheduler, Version: p.version}
	}
	return nil
}
