package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// Offers is what can be launched; cloud.Cloud has it.
type Offers interface {
	// InstanceTypes lists what can be launched from a resolved class.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Changed is closed, and replaced, whenever offerings changed.
	Changed() <-chan struct{}
}

// Leader is what the scheduler beside us tells about itself; *leadership.Leadership is one.
type Leader interface {
	leadership.Guard
	// Lead tells the identity under which the scheduler takes part in leader election.
	Lead(identity, leaseNamespace, leaseName string) error
	// Refresh reads the Lease now.
	Refresh(ctx context.Context) error
	// Leading says whether the launcher may act.
	Leading() bool
	// Resign stops and waits for running effects.
	Resign(ctx context.Context) error
}

// Launcher takes recorded claims; *launch.Launcher is one.
type Launcher interface {
	// Enqueue hands claims over and returns at once.
	Enqueue(claims ...*karpv1.NodeClaim)
	// Hold has claims of these names wait until release is called, whoever hands them over.
	Hold(names []string) (release func())
}

// Config is what a Server is made of. Every field but the last three is required.
type Config struct {
	// Socket is the path of the unix socket; one that is left from an earlier process is replaced.
	Socket string
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Cache tells of changes.
	Cache cache.Cache
	// Offers of the cloud.
	Offers Offers
	// Leader follows the scheduler's leadership.
	Leader Leader
	// Launcher of recorded claims.
	Launcher Launcher
	// Peer is what the scheduler says of itself.
	Peer *Peer
	// JoinDeadline is how long a node with promised pods may take to become Ready.
	JoinDeadline time.Duration
	// Manages says whether a NodePool is ours; nil means all are. The message says why not.
	Manages func(pool *karpv1.NodePool) (bool, string)
	// Gate says whether a NodePool's nodes join, so that more of them may be launched; nil means all do.
	Gate func(pool *karpv1.NodePool) health.Gate
	// Leaving names nodes that are to be replaced soon: the scheduler plans no room on them for pods that move. Nil means none are.
	Leaving func(ctx context.Context) []string
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
	// turn is held by the Launch under way, and by a stream that begins.
	turn chan struct{}
}

// maxMessage is above the catalogue of all types in all zones for dozens of EC2NodeClasses.
const maxMessage = 256 << 20

// New returns a Server that serves once Run is called.
func New(c Config) (*Server, error) {
	complete := c.Socket != "" && c.Client != nil && c.Reader != nil && c.Cache != nil && c.Offers != nil && c.Leader != nil && c.Launcher != nil && c.Peer != nil
	if !complete || c.JoinDeadline <= 0 {
		return nil, errors.New("server: Socket, Client, Reader, Cache, Offers, Leader, Launcher, Peer and JoinDeadline are required")
	}
	if c.Manages == nil {
		c.Manages = func(*karpv1.NodePool) (bool, string) { return true, "" }
	}
	if c.Gate == nil {
		c.Gate = func(*karpv1.NodePool) health.Gate { return health.Gate{} }
	}
	if c.Leaving == nil {
		c.Leaving = func(context.Context) []string { return nil }
	}
	return &Server{config: c, hub: newHub(), types: newTypes(), failures: newFailures(), asks: newAsks(), ledger: newLedger(), turn: make(chan struct{}, 1)}, nil
}

// Run serves until ctx ends. It begins once the cache is filled, so that a stream's first message is the whole truth.
func (s *Server) Run(ctx context.Context) error {
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.watch(ctx); err != nil {
		return err
	}
	if !s.config.Cache.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	s.refreshTypes(ctx)
	listener, err := listen(ctx, s.config.Socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
	api.RegisterLauncherServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() { s.keepTypes(ctx) })
	wg.Go(func() {
		<-ctx.Done()
		server.Stop() // Streams never end by themselves.
	})
	klog.FromContext(ctx).Info("Serving the scheduler", "socket", s.config.Socket)
	err = server.Serve(listener)
	cancel()
	wg.Wait()
	if parent.Err() != nil {
		return nil
	}
	return fmt.Errorf("socket %s: %w", s.config.Socket, err)
}

// listen opens the socket for this user alone: whoever can write to it can spend money.
func listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), listener.Close())
	}
	return listener, nil
}

// takeTurn waits until no Launch is under way; the caller is the one from then on until it calls done.
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

// Failed notes why a claim came to nothing, for its ending in the streams.
func (s *Server) Failed(claim *karpv1.NodeClaim, reason, message string) {
	s.failures.note(claim.Name, reason, message)
	s.hub.notify()
}

// Recheck has the streams told anew: Manages may answer otherwise than before.
func (s *Server) Recheck() { s.hub.notify() }
