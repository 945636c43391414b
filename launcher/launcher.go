package launcher

import (
	"context"
	"errors"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/version"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/intern"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/commitments"
	"github.com/slipway-k8s/slipway/launcher/evict"
	"github.com/slipway-k8s/slipway/launcher/gauges"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/interruptions"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/nodeoverlay"
	"github.com/slipway-k8s/slipway/launcher/ownwrites"
	"github.com/slipway-k8s/slipway/launcher/readable"
)

// Config holds the dependencies of a Launcher. Every field is required, but Account without the setting CommitmentsFromAWS, and Scorer without
// SpotPlacementScores.
type Config struct {
	// Settings are the user's.
	Settings Settings
	// Kubernetes is the connection to the API server.
	Kubernetes *rest.Config
	// Cloud makes the cloud's calls.
	Cloud cloud.Cloud
	// Account reads the account's commitments.
	Account commitments.Account
	// Scorer asks EC2 for spot placement scores.
	Scorer interruptions.Scorer
	// Gate is the one that the cloud's calls pass through; New adds it to Kubernetes' calls.
	Gate *leadership.Gate
}

// Launcher is the whole of slipway-launcher.
type Launcher struct {
	config     Config
	manager    manager.Manager
	recorders  recorders
	registerer prometheus.Registerer
	times      *gauges.Times
	// cache has what the manager's informers have.
	cache index.Cache
	// overlays is nil without the feature gate NodeOverlay.
	overlays *nodeoverlay.Controller
	// own are the lists that NodePools have of their own; nil before wire.
	own *ownLists
	// learned are the rates of spot interruptions; nil before wire.
	learned *interruptions.Recorder
}

// recorders record Events with their two sources.
type recorders struct {
	announcer *announce.Announcer
	// karpenter is the source of the Events that Karpenter has too, slipway that of all others.
	karpenter, slipway *announce.Recorder
}

// New wires everything and starts nothing.
func New(c Config) (*Launcher, error) { return assemble(c, metrics.Registry) }

func assemble(c Config, registerer prometheus.Registerer) (*Launcher, error) {
	if c.Kubernetes == nil || c.Cloud == nil || c.Gate == nil {
		return nil, errors.New("launcher: Kubernetes, Cloud and Gate are required")
	}
	if c.Account == nil && c.Settings.CommitmentsFromAWS {
		return nil, errors.New("launcher: Account is required with the setting commitmentsFromAWS")
	}
	if c.Scorer == nil && c.Settings.SpotPlacementScores {
		return nil, errors.New("launcher: Scorer is required with the setting spotPlacementScores")
	}
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	metrics, err := MetricsServer(c.Settings)
	if err != nil {
		return nil, err
	}
	gates, err := ParseGates(c.Settings.FeatureGates)
	if err != nil {
		return nil, err
	}
	// client-go's own limit is 5 requests a second.
	c.Kubernetes = rest.CopyConfig(c.Kubernetes)
	c.Kubernetes.QPS, c.Kubernetes.Burst = float32(c.Settings.KubeClientQPS), c.Settings.KubeClientBurst
	config := rest.CopyConfig(c.Kubernetes)
	config.Wrap(readable.Transport)
	config.Wrap(evict.Transport)
	config.Wrap(c.Gate.Kubernetes)
	// Karpenter's API packages register their types with client-go's scheme.
	mgr, err := manager.New(config, manager.Options{
		Scheme:                 scheme.Scheme,
		Metrics:                metrics,
		HealthProbeBindAddress: c.Settings.HealthProbeAddress,
		NewClient:              ownwrites.New,
		Cache:                  cache.Options{DefaultTransform: slim(gates)},
	})
	if err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	l := &Launcher{config: c, manager: mgr, registerer: registerer, cache: index.Cache{
		Pods:   index.SharedPods(mgr.GetCache()),
		Claims: index.SharedClaims(mgr.GetCache(), ownwrites.Latest[*karpv1.NodeClaim](mgr.GetClient())),
		Nodes:  index.SharedNodes(mgr.GetCache(), ownwrites.Latest[*corev1.Node](mgr.GetClient())),
	}}
	if l.recorders, err = newRecorders(config, l.registerer); err != nil {
		return nil, err
	}
	return l, l.registerMetrics()
}

// slim returns what the cache keeps of each object. Templates of workloads are read for CapacityBuffers alone. Of a PersistentVolume it keeps where it can be
// used, which is all that the launcher reads of volumes, and a fraction of what tens of thousands weigh.
func slim(gates Gates) toolscache.TransformFunc {
	others := intern.New().WithoutTemplates
	if gates.CapacityBuffer {
		others = intern.New().Transform
	}
	return func(obj any) (any, error) {
		pv, ok := obj.(*corev1.PersistentVolume)
		if !ok {
			return others(obj)
		}
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: pv.Name, UID: pv.UID, ResourceVersion: pv.ResourceVersion, Labels: pv.Labels},
			Spec:       corev1.PersistentVolumeSpec{NodeAffinity: pv.Spec.NodeAffinity},
		}, nil
	}
}

// registerMetrics registers the state metrics; only the leader exports values.
func (l *Launcher) registerMetrics() error {
	informers, leading := l.manager.GetCache(), l.config.Gate.Open
	collector, err := gauges.New(gauges.Config{Reader: informers, Cache: l.cache, Leading: leading})
	if err != nil {
		return err
	}
	if l.times, err = gauges.NewTimes(informers, leading, l.registerer); err != nil {
		return err
	}
	cost, err := gauges.NewCost(gauges.CostConfig{Reader: informers, Cache: l.cache, Leading: leading, Types: l.types, Overlay: l.overlaid})
	if err != nil {
		return err
	}
	return errors.Join(l.registerer.Register(collector), l.registerer.Register(cost), l.registerer.Register(gauges.Build(version.Get().GitVersion)))
}

func newRecorders(config *rest.Config, registerer prometheus.Registerer) (recorders, error) {
	announcer, err := announce.NewFor(config, registerer, 0)
	if err != nil {
		return recorders{}, err
	}
	return recorders{announcer: announcer, karpenter: announcer.Recorder("karpenter"), slipway: announcer.Recorder("slipway")}, nil
}

// Run runs everything until ctx ends or a part fails.
func (l *Launcher) Run(ctx context.Context) error {
	if !l.config.Settings.IgnoreDRARequests {
		served, err := index.DevicesServed(l.manager.GetRESTMapper())
		if err != nil {
			return err
		}
		l.config.Settings.IgnoreDRARequests = !served
	}
	if err := index.Register(ctx, l.manager.GetFieldIndexer(), !l.config.Settings.IgnoreDRARequests); err != nil {
		return err
	}
	if err := errors.Join(l.wire(), l.times.Watch(ctx), add(l.manager, l.recorders.announcer.Run)); err != nil {
		return err
	}
	return l.manager.Start(ctx)
}

// overlay creates the controller of NodeOverlays if the feature gate is on and the cluster has their CRD.
func (l *Launcher) overlay(guard leadership.Guard) error {
	gates, err := ParseGates(l.config.Settings.FeatureGates)
	if err != nil || !gates.NodeOverlay {
		return err
	}
	served, err := nodeoverlay.Served(l.manager.GetRESTMapper())
	if err != nil || !served {
		return err
	}
	l.overlays, err = nodeoverlay.New(nodeoverlay.Config{
		Client: l.manager.GetClient(), Offers: l.config.Cloud, Guard: guard, Events: l.recorders.slipway,
	})
	if err != nil {
		return err
	}
	return l.overlays.SetupWithManager(l.manager)
}

// overlaid is for metrics, which are registered before the controller exists.
func (l *Launcher) overlaid(ctx context.Context, types map[string][]catalog.InstanceType) (overlay.Result, error) {
	if l.own == nil {
		return overlay.Result{}, nil
	}
	return l.own.apply(ctx, types)
}

// types are the cloud's with what is learned of interruptions, for metrics, which are registered before that exists.
func (l *Launcher) types(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	if l.learned == nil {
		return l.config.Cloud.InstanceTypes(ctx, class)
	}
	return l.learned.InstanceTypes(ctx, class)
}

// ownLists creates what has the lists of NodePools, once it is known whether there are NodeOverlays.
func (l *Launcher) ownLists() *ownLists {
	out := &ownLists{cache: l.manager.GetClient(), types: l.types, made: overlay.Repriced{}}
	if l.overlays != nil {
		out.overlay = l.overlays.Apply
	}
	return out
}
