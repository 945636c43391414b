package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Offers is the part of cloud.Cloud that lists what can be launched.
type Offers interface {
	// InstanceTypes lists what can be launched from a resolved class.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Changed returns a channel that is closed, and replaced, whenever offerings change.
	Changed() <-chan struct{}
}

// Leader receives the leader election of the scheduler in the same pod; *leadership.Leadership is one.
type Leader interface {
	leadership.Guard
	// Lead sets the identity with which the scheduler takes part in leader election.
	Lead(identity, leaseNamespace, leaseName string) error
	// Refresh reads the Lease now.
	Refresh(ctx context.Context) error
	// Leading reports whether the launcher may act.
	Leading() bool
	// Resign stops, and waits for running effects.
	Resign(ctx context.Context) error
}

// Launcher launches recorded claims; *launch.Launcher is one.
type Launcher interface {
	// Enqueue queues claims and returns at once.
	Enqueue(claims ...*karpv1.NodeClaim)
	// Hold delays the launch of claims with these names until release is called. Stamp gives a claim, before it is recorded, the ID of its
	// launch.
	Hold(names []string) (stamp func(*karpv1.NodeClaim), release func())
}

// Overlay returns what NodeOverlays make of the instance types of all classes, by their names. With an error, the last result counts.
type Overlay func(ctx context.Context, types map[string][]catalog.InstanceType) (overlay.Result, error)

// Config holds the dependencies of a Server. Every field except the last four is required.
type Config struct {
	// Socket is the path of the unix socket; one left by an earlier process is replaced.
	Socket string
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Pods of the cluster.
	Pods index.Pods
	// Claims of the cluster.
	Claims index.Claims
	// Reader reads from the API server.
	Reader client.Reader
	// Cache notifies of changes.
	Cache cache.Cache
	// Offers lists what can be launched.
	Offers Offers
	// Leader follows the scheduler's leadership.
	Leader Leader
	// Launcher launches recorded claims.
	Launcher Launcher
	// Peer is the scheduler's version and identity.
	Peer *Peer
	// Bound reports whether the launcher has bound a pod lately, which the cache may not show yet; nil means that it binds none.
	Bound func(uid types.UID) bool
	// Patience is how long nodes may take to become Ready.
	Patience record.Patience
	// HandedOver reports whether a Karpenter runs and the NodePool is slipway's; nil means that none ever runs.
	HandedOver func(pool *karpv1.NodePool) bool
	// Own marks a new NodeClaim as slipway's while a Karpenter runs; nil means that none ever runs.
	Own func(claim *karpv1.NodeClaim)
	// Manages reports whether slipway manages a NodePool, with the reason if not; nil means that it manages all.
	Manages func(pool *karpv1.NodePool) (bool, string)
	// Gate returns whether a NodePool may launch more nodes, according to whether its nodes join; nil means that all may.
	Gate func(pool *karpv1.NodePool) health.Gate
	// Commitments returns the Savings Plans and Reserved Instances, the same list while nothing has changed; nil means none.
	Commitments func() []commitment.Commitment
	// Overlay returns the lists of instance types that NodePools have of their own, by NodeOverlays and by their tenancy; nil means that there are none.
	Overlay Overlay
	// Overlays means that changes of NodeOverlays are followed: the cluster has their CRD, and the feature gate is on.
	Overlays bool
	// Leaving returns the nodes that are to be replaced soon: the scheduler plans no room on them for pods that move. Nil means none.
	Leaving func(ctx context.Context) []string
	// InMove reports whether a node is in a move: it terminates once its pods have room. Nil means that none is.
	InMove func(node string) bool
}

// Server implements api.LauncherServer.
type Server struct {
	api.UnimplementedLauncherServer

	config   Config
	hub      *hub
	types    *typeCache
	failures *failures
	asks     *asks
	ledger   *ledger
	// turn is held by the current Launch, and by a stream that begins.
	turn chan struct{}
}

// New returns a Server that serves once Run is called.
func New(c Config) (*Server, error) {
	complete := c.Socket != "" && c.Client != nil && c.Pods != nil && c.Claims != nil && c.Reader != nil && c.Cache != nil && c.Offers != nil && c.Leader != nil && c.Launcher != nil && c.Peer != nil
	if !complete || c.Patience.Promised <= 0 || c.Patience.Empty <= 0 {
		return nil, errors.New("server: Socket, Client, Pods, Reader, Cache, Offers, Leader, Launcher, Peer and Patience are required")
	}
	c.setDefaults()
	return &Server{config: c, hub: newHub(), types: newTypes(), failures: newFailures(), asks: newAsks(), ledger: newLedger(), turn: make(chan struct{}, 1)}, nil
}

// setDefaults makes what is not given do nothing.
func (c *Config) setDefaults() {
	if c.HandedOver == nil {
		c.HandedOver = func(*karpv1.NodePool) bool { return false }
	}
	if c.Bound == nil {
		c.Bound = func(types.UID) bool { return false }
	}
	if c.Own == nil {
		c.Own = func(*karpv1.NodeClaim) {}
	}
	if c.Manages == nil {
		c.Manages = func(*karpv1.NodePool) (bool, string) { return true, "" }
	}
	if c.Gate == nil {
		c.Gate = func(*karpv1.NodePool) health.Gate { return health.Gate{} }
	}
	if c.Commitments == nil {
		c.Commitments = func() []commitment.Commitment { return nil }
	}
	if c.InMove == nil {
		c.InMove = func(string) bool { return false }
	}
	if c.Leaving == nil {
		c.Leaving = func(context.Context) []string { return nil }
	}
}

// typesWithin is how long Run waits for the first instance types before it serves: longer than AWS takes to return them. What needs only Kubernetes, such
// as bindings and drains, does not wait for an AWS that fails.
const typesWithin = 10 * time.Second

// Run serves until ctx ends. It begins once the cache is filled, so that a stream's first message is complete, and once the cloud was asked for
// instance types, or typesWithin later.
func (s *Server) Run(ctx context.Context) error {
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
	}()
	if err := s.watch(ctx); err != nil {
		return err
	}
	if !s.config.Cache.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	asked := make(chan struct{})
	wg.Go(func() { s.keepTypes(ctx, sync.OnceFunc(func() { close(asked) })) })
	select {
	case <-asked:
	case <-time.After(typesWithin):
		klog.FromContext(ctx).Info("The scheduler is served without instance types: the cloud has not returned them yet", "waited", typesWithin)
	case <-ctx.Done():
		return nil
	}
	listener, err := listen(ctx, s.config.Socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(limits()...)
	api.RegisterLauncherServer(server, withdrawing{LauncherServer: s, server: s})
	wg.Go(func() {
		<-ctx.Done()
		server.Stop() // Streams do not end by themselves.
	})
	klog.FromContext(ctx).Info("Serving the scheduler", "socket", s.config.Socket)
	if err = server.Serve(listener); parent.Err() != nil {
		return nil
	}
	return fmt.Errorf("socket %s: %w", s.config.Socket, err)
}

// takeTurn waits until no Launch is in progress and excludes others until done is called.
func (s *Server) takeTurn(ctx context.Context) (done func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// Lead implements api.LauncherServer.
func (s *Server) Lead(ctx context.Context, in *api.LeadRequest) (*api.LeadResponse, error) {
	if err := s.config.Leader.Lead(in.GetIdentity(), in.GetLeaseNamespace(), in.GetLeaseName()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.config.Peer.leads(ctx, in.GetIdentity())
	return &api.LeadResponse{}, nil
}

// Resign implements api.LauncherServer.
func (s *Server) Resign(ctx context.Context, _ *api.ResignRequest) (*api.ResignResponse, error) {
	return &api.ResignResponse{}, s.config.Leader.Resign(ctx)
}

// Failed records why a claim failed, for its ending in the streams.
func (s *Server) Failed(claim *karpv1.NodeClaim, reason, message string) {
	s.failures.note(claim.Name, reason, message)
	s.hub.notify()
}

// Recheck makes the streams send their state again: Manages, or the expected losses of offerings, may have changed.
func (s *Server) Recheck() {
	s.types.poke()
	s.hub.notify()
}
