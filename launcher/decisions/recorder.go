package decisions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/deleted"
	"github.com/slipway-k8s/slipway/launcher/view"
)

const (
	// Name is the ConfigMap's.
	Name = "slipway-decisions"
	// dataKey is the key of the ConfigMap that has the decisions, aboutKey one with a sentence for people.
	dataKey  = "decisions.json.gz"
	aboutKey = "about"
	// period is how often what is new is written, and otherwise read.
	period = 10 * time.Second
	// within bounds one round.
	within = 30 * time.Second
)

// Config is what a Recorder needs. All fields but Namespace are required.
type Config struct {
	// Namespace has the ConfigMap; empty means that decisions are forgotten at a restart.
	Namespace string
	// Client writes the ConfigMap, and Reader reads it from the API server.
	Client client.Client
	// Reader reads the ConfigMap, from the API server.
	Reader client.Reader
	// Informers have the NodeClaims.
	Informers cache.Informers
	// Leading reports whether the launcher may act: only then it writes.
	Leading func() bool
}

// Recorder keeps the ring.
type Recorder struct {
	config Config

	mu   sync.Mutex
	ring Ring
	// news means that the ring has decisions that are not written.
	news bool

	// The following are of Run's goroutine alone. led means that this process led at the last round, problem is why that failed.
	led     bool
	problem string
}

// New returns a Recorder; Run starts it.
func New(c Config) (*Recorder, error) {
	if c.Client == nil || c.Reader == nil || c.Informers == nil || c.Leading == nil {
		return nil, errors.New("decisions: Client, Reader, Informers and Leading are required")
	}
	return &Recorder{config: c}, nil
}

// Run reads NodeClaims, and reads or writes the ConfigMap, until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	informer, err := r.config.Informers.GetInformer(ctx, &karpv1.NodeClaim{})
	if err != nil {
		return fmt.Errorf("reading NodeClaims: %w", err)
	}
	registration, err := r.follow(informer)
	if err != nil {
		return fmt.Errorf("reading NodeClaims: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }() // The process ends.
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		r.round(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// follow reads each change of a NodeClaim.
func (r *Recorder) follow(informer cache.Informer) (toolscache.ResourceEventHandlerRegistration, error) {
	return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: r.observe, UpdateFunc: func(_, now any) { r.observe(now) },
		DeleteFunc: func(last any) {
			last = deleted.Object(last)
			r.observe(last)
		},
	})
}

// observe adds what a NodeClaim's status says.
func (r *Recorder) observe(object any) {
	claim, ok := object.(*karpv1.NodeClaim)
	if !ok {
		return
	}
	for _, d := range view.DecisionsOf(claim) {
		r.add(d)
	}
}

func (r *Recorder) add(d view.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news = r.ring.Add(d, time.Now()) || r.news
}

// Refused adds a NodeClaim that was given up before its node was ready.
func (r *Recorder) Refused(claim *karpv1.NodeClaim, reason, message string) {
	r.add(view.NewDecision(view.Refused, time.Now(), reason+": "+message, claim))
}

// Consolidated adds a move whose nodes are being deleted; claims has at least one. It saves so many USD per hour with so many evictions.
func (r *Recorder) Consolidated(claims []*karpv1.NodeClaim, saving float64, evictions int, message string) {
	d := view.NewDecision(view.Consolidated, time.Now(), message, claims...)
	d.Saving, d.Evictions = saving, evictions
	r.add(d)
}

// Recorded returns what the ConfigMap has, as Read does: what a replica that led before has decided.
func (r *Recorder) Recorded(ctx context.Context) ([]view.Decision, error) {
	if r.config.Namespace == "" {
		return nil, nil
	}
	return Read(ctx, r.config.Reader, r.config.Namespace, time.Now())
}

// List returns the decisions of the last 24 hours, the latest first.
func (r *Recorder) List() []view.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ring.List(time.Now())
}

// round reads or writes once. The log has each reason of a failure once; the next round tries again.
func (r *Recorder) round(ctx context.Context, now time.Time) {
	if r.config.Namespace == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	problem := ""
	if err := r.sync(ctx, now); err != nil && !errors.Is(err, context.Canceled) {
		if problem = err.Error(); problem != r.problem {
			klog.FromContext(ctx).Error(err, "The decisions could not be recorded; it is tried again")
		}
	}
	r.problem = problem
}

// sync writes what is new while the launcher leads. It reads what another replica wrote before that, and as long as another one leads.
func (r *Recorder) sync(ctx context.Context, now time.Time) error {
	leads := r.config.Leading()
	began := leads && !r.led
	r.mu.Lock()
	news := r.news
	r.mu.Unlock()
	if leads && !began && !news {
		return nil
	}
	have := &corev1.ConfigMap{}
	err := r.config.Reader.Get(ctx, client.ObjectKey{Namespace: r.config.Namespace, Name: Name}, have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", r.config.Namespace, Name, err)
	}
	exists := err == nil
	if exists {
		list, err := decode(have.BinaryData[dataKey])
		if err != nil {
			klog.FromContext(ctx).Error(err, "The decisions of before cannot be read; they are written again", "configMap", r.config.Namespace+"/"+Name)
		}
		r.mu.Lock()
		for _, d := range list {
			r.ring.Add(d, now)
		}
		r.mu.Unlock()
	}
	if r.led = leads; !leads || !news {
		return nil
	}
	return r.write(ctx, have, exists)
}

// write writes the ring over what was read.
func (r *Recorder) write(ctx context.Context, have *corev1.ConfigMap, exists bool) error {
	r.mu.Lock()
	r.news = false
	r.mu.Unlock()
	data, err := encode(r.List())
	if err == nil {
		want := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.config.Namespace, Name: Name, ResourceVersion: have.ResourceVersion},
			BinaryData: map[string][]byte{dataKey: data},
			Data:       map[string]string{aboutKey: "What slipway decided about nodes in the last 24 hours. Its API shows it at /api/v1/decisions."},
		}
		if exists {
			err = r.config.Client.Update(ctx, want)
		} else {
			err = r.config.Client.Create(ctx, want)
		}
	}
	if err != nil {
		r.mu.Lock()
		r.news = true
		r.mu.Unlock()
		return fmt.Errorf("writing ConfigMap %s/%s: %w", r.config.Namespace, Name, err)
	}
	return nil
}

// Read returns the decisions of the last 24 hours from the ConfigMap of a namespace, the latest first; nil where it does not exist.
func Read(ctx context.Context, reader client.Reader, namespace string, now time.Time) ([]view.Decision, error) {
	have := &corev1.ConfigMap{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, have)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, Name, err)
	}
	list, err := decode(have.BinaryData[dataKey])
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", namespace, Name, err)
	}
	var ring Ring
	for _, d := range list {
		ring.Add(d, now)
	}
	return ring.List(now), nil
}
