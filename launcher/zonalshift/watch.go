package zonalshift

import (
	"context"
	"errors"
	"fmt"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// pause is the least time between two looks: offerings change many times in a second while EC2 refuses them.
const pause = time.Second

// The reasons of the Events, Karpenter's.
const (
	ReasonActive  = "ZonalShiftActive"
	ReasonCleared = "ZonalShiftCleared"
)

// Offers is the part of cloud.Cloud that lists what can be launched.
type Offers interface {
	// InstanceTypes returns the instance types of the class. The list is shared and not changed.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Changed returns a channel that is closed, and replaced, whenever offerings change.
	Changed() <-chan struct{}
}

// Config holds the dependencies of a Watcher. Every field is required.
type Config struct {
	// Client reads from the cache.
	Client client.Reader
	// Offers lists the instance types of a class.
	Offers Offers
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records Karpenter's Events.
	Events announce.EventRecorder
}

// Watcher writes Events about zonal shifts.
type Watcher struct {
	config Config
	// shifted are the zones of the last look, by NodePool. Run's goroutine owns it.
	shifted map[types.UID][]Zone
}

// New returns a Watcher; Run starts it.
func New(c Config) (*Watcher, error) {
	if c.Client == nil || c.Offers == nil || c.Guard == nil || c.Events == nil {
		return nil, errors.New("zonalshift: Client, Offers, Guard and Events are required")
	}
	return &Watcher{config: c, shifted: map[types.UID][]Zone{}}, nil
}

// Run looks at every change of the offerings until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	for {
		changed := w.config.Offers.Changed()
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Zonal shifts could not be compared with the NodePools; it is tried again at the next change")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// look compares the zones of each NodePool with those of the last look. A NodePool whose class has no answer keeps its zones.
func (w *Watcher) look(ctx context.Context) error {
	ctx, cancel, err := w.config.Guard.Wait(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	var pools karpv1.NodePoolList
	if err := w.config.Client.List(ctx, &pools); err != nil {
		return fmt.Errorf("listing NodePools: %w", err)
	}
	known, byClass := map[types.UID][]Zone{}, map[string][]Zone{}
	for i := range pools.Items {
		pool := &pools.Items[i]
		known[pool.UID] = w.shifted[pool.UID]
		ref := pool.Spec.Template.Spec.NodeClassRef
		if ref == nil || provider.OthersPool(pool) {
			continue
		}
		zones, ok := byClass[ref.Name]
		if !ok {
			if zones, err = w.zones(ctx, ref.Name); err != nil {
				klog.FromContext(ctx).V(2).Info("An EC2NodeClass has no instance types now", "EC2NodeClass", ref.Name, "err", err)
				continue
			}
			byClass[ref.Name] = zones
		}
		known[pool.UID] = w.report(ctx, pool, Of(pool, zones))
	}
	w.shifted = known // Without the NodePools that are gone.
	return nil
}

func (w *Watcher) zones(ctx context.Context, name string) ([]Zone, error) {
	class := &awsv1.EC2NodeClass{}
	if err := w.config.Client.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		return nil, err
	}
	list, err := w.config.Offers.InstanceTypes(ctx, class)
	return Shifted(list), err
}

// report writes the Events and returns the zones.
func (w *Watcher) report(ctx context.Context, pool *karpv1.NodePool, now []Zone) []Zone {
	before, log := w.shifted[pool.UID], klog.FromContext(ctx)
	for _, z := range Without(now, before) {
		log.Info("A zonal shift takes a zone from a NodePool", "nodePool", pool.Name, "zone", z.Name, "zoneID", z.ID)
		w.config.Events.Eventf(pool, corev1.EventTypeWarning, ReasonActive, "Zonal shift detected: offerings in zone %s (%s) are unavailable for this NodePool", z.Name, z.ID)
	}
	for _, z := range Without(before, now) {
		log.Info("A zonal shift is over: a NodePool has a zone back", "nodePool", pool.Name, "zone", z.Name, "zoneID", z.ID)
		w.config.Events.Eventf(pool, corev1.EventTypeNormal, ReasonCleared, "Zonal shift cleared: offerings in zone %s (%s) are restored for this NodePool", z.Name, z.ID)
	}
	return now
}
