package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// firstRetry and lastRetry bound the wait between two attempts to open a stream, and also gRPC's between two attempts to connect: both waits follow
	// each other. They are short, since the launcher is unreachable only while its container restarts, pods wait for it meanwhile, and an attempt at a
	// local socket costs nothing.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 200 * time.Millisecond
)

// Config is what a Link needs.
type Config struct {
	// Socket is the path of the launcher's unix socket. Required.
	Socket string
	// Identity is the name under which this scheduler takes part in leader election, exactly as in its lock. It is empty without
	// leader election; then no identity is sent.
	Identity string
	// LeaseNamespace and LeaseName are those of the election.
	LeaseNamespace, LeaseName string
	// OnCatalog receives each change of the catalog, in order, from the receiver's goroutine. Required.
	OnCatalog func(Update)
	// OnQuestion receives each question, from the receiver's goroutine; it must not block. Answer with Reply. Required.
	OnQuestion func(*api.Question)
	// OnConnection receives each change of the connection, from the receiver's goroutine. Required.
	OnConnection func(Connection)
}

// Connection is whether the catalog is being received. The zero value is that of a launcher which cannot be reached.
type Connection struct {
	// Up means that the catalog stream is open and has had its first message.
	Up bool
	// Launcher is the version of the contract that the launcher speaks, such as "1.0"; empty where it is not known.
	Launcher string
	// Skew is how that differs from this side's version. With api.SkewMajor the catalog is not received. Empty where it is not known.
	Skew api.Skew
}

// connectionWith returns the connection with a launcher of the version.
func connectionWith(launcher *api.Version) Connection {
	skew := api.SkewOf(launcher)
	return Connection{Up: skew != api.SkewMajor, Launcher: launcher.Text(), Skew: skew}
}

// Update is the catalog after one message of the stream.
type Update struct {
	// Full means that this is a stream's first message: what is not in State no longer exists.
	State catalog.State
	// Full says that this is a stream's first message: what is not in State is gone.
	Full bool
	// Opened is when the stream was opened: what the launcher recorded before is in State.
	Opened time.Time
	// Changed lists the in-flight nodes that are new or changed, by name of the NodeClaim.
	Changed []string
	// Offers means that NodePools, instance types or offerings changed.
	Offers bool
	// Ended lists the in-flight nodes that ended.
	Ended []End
}

// Link is the connection to the launcher. Its methods may be called concurrently.
type Link struct {
	cfg    Config
	conn   *grpc.ClientConn
	client api.LauncherClient

	mu      sync.Mutex
	answers grpc.BidiStreamingClient[api.Answer, api.Question]
	cancel  context.CancelFunc
	// reported is the last connection that was reported. RunCatalog alone uses it.
	reported Connection
}

// New checks the configuration and returns a Link, which connects on first use.
func New(cfg Config) (*Link, error) {
	switch {
	case cfg.Socket == "":
		return nil, errors.New("link: Socket is required")
	case cfg.OnCatalog == nil || cfg.OnQuestion == nil || cfg.OnConnection == nil:
		return nil, errors.New("link: OnCatalog, OnQuestion and OnConnection are required")
	}
	conn, err := grpc.NewClient("unix:"+cfg.Socket,
		// The socket's mode is 0600 and both containers share a Pod: a process that can open it may use it.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(api.MaxMessageBytes), grpc.MaxCallSendMsgSize(api.MaxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstRetry, Multiplier: 1.6, Jitter: 0.2, MaxDelay: lastRetry},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("link to the launcher at %s: %w", cfg.Socket, err)
	}
	return &Link{cfg: cfg, conn: conn, client: api.NewLauncherClient(conn)}, nil
}

// Close closes the connection.
func (l *Link) Close() error { return l.conn.Close() }

// Launch sends one batch and returns what was recorded. The error is an *api.IncompatibleError if the launcher speaks another
// version of the contract: nothing was recorded then.
func (l *Link) Launch(ctx context.Context, req *api.LaunchRequest) (*api.LaunchResponse, error) {
	req.Version = api.OwnVersion()
	resp, err := l.client.Launch(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("launching batch %s: %w", req.GetBatch(), api.RefusedBy(api.SideLauncher, err))
	}
	return resp, nil
}

// Withdraw takes promises back, and returns the names of the NodeClaims that are deleted because they keep none.
func (l *Link) Withdraw(ctx context.Context, req *api.WithdrawRequest) ([]string, error) {
	req.Version = api.OwnVersion()
	resp, err := l.client.Withdraw(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("withdrawing %s: %w", catalog.CountText(len(req.GetPromises()), "promise"), api.RefusedBy(api.SideLauncher, err))
	}
	return resp.GetDeleted(), nil
}

// Resign asks the launcher to stop acting, and returns when it has stopped.
func (l *Link) Resign(ctx context.Context) error {
	if _, err := l.client.Resign(ctx, &api.ResignRequest{}); err != nil {
		return fmt.Errorf("resign at the launcher: %w", err)
	}
	return nil
}

// Resync closes the catalog stream, so that the next message is a full state.
func (l *Link) Resync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
}

// RunCatalog keeps the catalog stream open until the context ends.
func (l *Link) RunCatalog(ctx context.Context) {
	l.keep(ctx, "catalog", func(ctx context.Context) (worked bool, err error) {
		worked, err = l.watchCatalog(ctx)
		err = api.RefusedBy(api.SideLauncher, err)
		var refused *api.IncompatibleError
		switch {
		case ctx.Err() != nil && !worked:
		case errors.As(err, &refused):
			l.report(connectionWith(refused.Version))
		default:
			l.report(Connection{})
		}
		return worked, err
	})
}

// report reports the connection if it has changed.
func (l *Link) report(c Connection) {
	if c != l.reported {
		l.reported = c
		l.cfg.OnConnection(c)
	}
}

// RunQuestions keeps the stream of questions open until the context ends.
func (l *Link) RunQuestions(ctx context.Context) {
	l.keep(ctx, "questions", l.receiveQuestions)
}

// keep runs a stream again and again, with growing waits while it cannot be opened. It logs each error once in a row.
func (l *Link) keep(ctx context.Context, name string, stream func(context.Context) (bool, error)) {
	logger := klog.FromContext(ctx)
	wait, logged := firstRetry, ""
	for ctx.Err() == nil {
		worked, err := stream(ctx)
		if ctx.Err() != nil {
			return
		}
		if worked {
			wait, logged = firstRetry, ""
		}
		if text := fmt.Sprint(err); text != logged {
			logged = text
			logger.V(2).Info("Stream to the launcher broke, will open it again", "stream", name, "wait", wait, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, lastRetry)
	}
}

func (l *Link) lead(ctx context.Context) error {
	if l.cfg.Identity == "" {
		return nil
	}
	_, err := l.client.Lead(ctx, &api.LeadRequest{
		Identity: l.cfg.Identity, LeaseNamespace: l.cfg.LeaseNamespace, LeaseName: l.cfg.LeaseName,
	})
	return err
}

// watchCatalog runs one stream until it breaks. worked means that a message came.
func (l *Link) watchCatalog(ctx context.Context) (worked bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.cancel = cancel
	l.mu.Unlock()
	if err := l.lead(ctx); err != nil {
		return false, err
	}
	opened := time.Now()
	stream, err := l.client.WatchCatalog(ctx, &api.WatchCatalogRequest{Version: api.OwnVersion()})
	if err != nil {
		return false, err
	}
	var state catalog.State
	var launcher *api.Version
	for {
		msg, err := stream.Recv()
		if err != nil {
			return worked, err
		}
		if !worked {
			launcher = msg.GetVersion()
			if api.SkewOf(launcher) == api.SkewMajor {
				return false, &api.IncompatibleError{Side: api.SideLauncher, Version: launcher}
			}
			if !msg.GetFull() {
				return false, errors.New("the catalog stream did not start with a full state")
			}
		}
		update := apply(state, msg)
		update.Opened = opened
		state = update.State
		l.cfg.OnCatalog(update)
		if !worked {
			worked = true
			l.report(connectionWith(launcher))
		}
	}
}

func (l *Link) receiveQuestions(ctx context.Context) (worked bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.client.Ask(ctx)
	if err != nil {
		return false, err
	}
	// The first message opens the stream.
	if err := stream.Send(&api.Answer{Version: api.OwnVersion()}); err != nil {
		return false, err
	}
	// The launcher's first message opens the stream too; it is no question.
	first, err := stream.Recv()
	switch {
	case err != nil:
		return false, api.RefusedBy(api.SideLauncher, err)
	case api.SkewOf(first.GetVersion()) == api.SkewMajor:
		return false, &api.IncompatibleError{Side: api.SideLauncher, Version: first.GetVersion()}
	}
	l.mu.Lock()
	l.answers = stream
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.answers = nil
		l.mu.Unlock()
	}()
	for {
		question, err := stream.Recv()
		if err != nil {
			return true, err
		}
		l.cfg.OnQuestion(question)
	}
}

// Reply answers a question. If the stream broke meanwhile the answer is lost, and the launcher proceeds as after a no.
func (l *Link) Reply(answer *api.Answer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers == nil {
		return fmt.Errorf("answer to question %s: the launcher is away", answer.GetId())
	}
	if err := l.answers.Send(answer); err != nil {
		return fmt.Errorf("answer to question %s: %w", answer.GetId(), err)
	}
	return nil
}
