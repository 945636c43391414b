package launch

import (
	"context"
	"errors"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// Cloud is what a launch needs of the cloud; cloud.Cloud has it.
type Cloud interface {
	// InstanceTypes lists what can be launched from a resolved class.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Launch is one CreateFleet call.
	Launch(ctx context.Context, in cloud.LaunchInput) (cloud.LaunchOutput, error)
	// Instances describes instances.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
	// Tag writes tags on one instance.
	Tag(ctx context.Context, instanceID string, tags map[string]string) error
	// Terminate ends instances.
	Terminate(ctx context.Context, instanceIDs []string) error
}

// Recorder writes Events; record.EventRecorder of client-go is one.
type Recorder interface {
	// Eventf records an Event about an object.
	Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any)
}

// Config is what a Launcher is made of. Every field is required.
type Config struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Cloud has the instances.
	Cloud Cloud
	// Guard lets effects happen while leading only.
	Guard leadership.Guard
	// Events records Karpenter's Events.
	Events Recorder
	// Failed is told of each claim that could not be launched, before it is deleted: reason is one CamelCase word.
	Failed func(claim *karpv1.NodeClaim, reason, message string)
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
}

// The launcher's times.
const (
	// launchTimeout is when a claim without instance is given up, as Karpenter does.
	launchTimeout = 5 * time.Minute
	// lookFor is how long the instances of a call whose answer was lost are looked for: EC2 is eventually consistent.
	lookFor = 30 * time.Second
	// lookEvery and glanceEvery are the periods of asking EC2 for instances of a lost call, and for those it just launched.
	lookEvery   = 2 * time.Second
	glanceEvery = 100 * time.Millisecond
	// firstRetry and lastRetry bound the wait after an error that may pass.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Launcher launches claims. Enqueue may be called from any goroutine.
type Launcher struct {
	config  Config
	metrics *metrics
	in      chan []*karpv1.NodeClaim

	mu sync.Mutex
	// known are the claims that are under way or done in this process; they are forgotten when they are deleted.
	known map[types.UID]struct{}
}

// New returns a Launcher that works once Run is called.
func New(c Config) (*Launcher, error) {
	if c.Client == nil || c.Reader == nil || c.Cloud == nil || c.Guard == nil || c.Events == nil || c.Failed == nil || c.Registerer == nil {
		return nil, errors.New("launch: Client, Reader, Cloud, Guard, Events, Failed and Registerer are required")
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	return &Launcher{config: c, metrics: m, in: make(chan []*karpv1.NodeClaim), known: map[types.UID]struct{}{}}, nil
}

// Enqueue hands claims without an instance over; those that are under way or done already are left out. It returns when they
// are taken, or when ctx ends.
func (l *Launcher) Enqueue(ctx context.Context, claims ...*karpv1.NodeClaim) {
	fresh := l.fresh(claims)
	if len(fresh) == 0 {
		return
	}
	select {
	case l.in <- fresh:
	case <-ctx.Done():
		for _, c := range fresh {
			l.Forget(c.UID)
		}
	}
}

func (l *Launcher) fresh(claims []*karpv1.NodeClaim) []*karpv1.NodeClaim {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*karpv1.NodeClaim
	for _, c := range claims {
		_, known := l.known[c.UID]
		if !known && c.Status.ProviderID == "" && c.DeletionTimestamp.IsZero() {
			l.known[c.UID] = struct{}{}
			out = append(out, c.DeepCopy())
		}
	}
	return out
}

// Forget drops what is known of a claim: call it when the claim is deleted.
func (l *Launcher) Forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, uid)
}

// Run works until ctx ends, and returns once every group has stopped.
func (l *Launcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case claims := <-l.in:
			for _, group := range groups(claims) {
				wg.Go(func() { l.work(ctx, group) })
			}
		}
	}
}
