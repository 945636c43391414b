package terminate

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/surge"
)

// Instances is the part of cloud.Cloud that terminations need.
type Instances interface {
	// Instances describes instances, terminated ones included as long as EC2 shows them.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
	// Terminate terminates instances; IDs that do not exist are ignored.
	Terminate(ctx context.Context, instanceIDs []string) error
	// ShiftedZones returns the IDs of the zones that a zonal shift is away from, and whether they are known yet.
	ShiftedZones() (zones map[string]bool, known bool)
}

// Config holds the dependencies of a Terminator. Every field is required.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Pods reads pods from the cache.
	Pods index.Pods
	// Reader reads from the API server, where a lagging cache would do harm.
	Reader client.Reader
	// Cloud has the instances.
	Cloud Instances
	// Asker asks the scheduler for room for the pods of a node that terminates.
	Asker Asker
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may terminate all.
	Ours func(claim *karpv1.NodeClaim) bool
	// Alone reports whether certainly no Karpenter is running, which ends its Nodes itself. Nil means that none is.
	Alone func() bool
}

// Terminator terminates NodeClaims, Nodes and instances.
type Terminator struct {
	config   Config
	metrics  *metrics
	ends     *ends
	evictor  *evictor
	ahead    *replacements
	progress *progress
	// released are the claims that another finalizer still keeps.
	released *released
}

// The periods of checking what no watch reports.
const (
	drainPeriod    = time.Second
	instancePeriod = 5 * time.Second
	volumePeriod   = 2 * time.Second
	nodePeriod     = 5 * time.Second
	foreignPeriod  = time.Minute
	// minDrain is the minimum duration of a drain from the cordon on, as in Karpenter: a pod bound at that moment must still be seen.
	minDrain = 5 * time.Second
	// visibleAfter is the age from which EC2's eventual consistency no longer explains a missing instance.
	visibleAfter = time.Minute
)

// New returns a Terminator; SetupWithManager or Run start it.
func New(c Config) (*Terminator, error) {
	missing := c.Client == nil || c.Pods == nil || c.Reader == nil || c.Cloud == nil || c.Asker == nil || c.Guard == nil
	if missing || c.Events == nil || c.Registerer == nil {
		return nil, errors.New("terminate: Client, Pods, Reader, Cloud, Asker, Guard, Events and Registerer are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	if c.Alone == nil {
		c.Alone = func() bool { return true }
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	surger, err := surge.New(surge.Config{Client: c.Client, Reader: c.Reader, Events: c.Events, Registerer: c.Registerer})
	if err != nil {
		return nil, err
	}
	evictor := &evictor{config: c, metrics: m, surger: surger, turns: newTurns(c.Pods), backoff: &backoff{pods: map[types.UID]attempt{}}}
	return &Terminator{
		config: c, metrics: m, ends: newEnds(c.Cloud, c.Guard), evictor: evictor,
		progress: &progress{events: c.Events, at: map[claimID]time.Time{}}, ahead: &replacements{byClaim: map[claimID]*replacement{}}, released: &released{claims: map[string]types.UID{}},
	}, nil
}

// Run asks EC2 about all terminating instances at once until ctx ends. SetupWithManager has the manager call it.
func (t *Terminator) Run(ctx context.Context) error { return t.ends.run(ctx) }

// evictor evicts and deletes pods. It records when each pod's eviction may be tried again.
type evictor struct {
	config  Config
	metrics *metrics
	surger  *surge.Surger
	turns   *turns
	backoff *backoff
}
