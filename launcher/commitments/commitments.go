package commitments

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

const (
	// Key is the key of the ConfigMap that has the list.
	Key = "commitments.yaml"
	// period is how often the ConfigMap is read.
	period = 10 * time.Second
	// within bounds one read.
	within = 5 * time.Second
	// mostEvents bounds the Events of one version of the ConfigMap.
	mostEvents = 10
)

// Config holds the dependencies of Commitments. Every field but Account and Records is required.
type Config struct {
	// ConfigMap is its namespace and name.
	ConfigMap types.NamespacedName
	// Share of each commitment that this cluster may use, beside the share of the commitment's own: above 0, at most 1.
	Share float64
	// Account reads the commitments of the AWS account; nil for those of the ConfigMap alone.
	Account Account
	// Records is the namespace of the ConfigMap that keeps what AWS returned last; empty means that a restart forgets it.
	Records string
	// Reader reads ConfigMaps, from the API server.
	Reader client.Reader
	// Client reads Nodes and NodeClaims from the cache, and writes the ConfigMap of Records.
	Client client.Client
	// Events records what is wrong with the ConfigMap.
	Events announce.EventRecorder
	// Leading reports whether the launcher may act: Events are recorded, ConfigMaps are written, and metrics have values, only then.
	Leading func() bool
	// Types returns the instance types by class, with their prices.
	Types func(ctx context.Context) map[string][]catalog.InstanceType
	// Changed is called when the list has changed; it returns at once.
	Changed func()
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
}

// Commitments is the current list. It is safe for concurrent use.
type Commitments struct {
	config Config

	mu   sync.Mutex
	list []commitment.Commitment
	// problem is why the ConfigMap could not be read the last time, accountProblem why AWS could not; empty if it could.
	problem, accountProblem string
	// accountReported is the accountProblem of which there is an Event.
	accountReported string
	// account is what AWS returned the last time, before the last restart if answers is 0.
	account []commitment.Commitment
	// answers is how often AWS has returned the commitments.
	answers int
	// answered has a value when there is an answer that refresh has not seen.
	answered chan struct{}

	// The following are of Run's goroutine alone. reported is the version whose mistakes are reported, read the version that own is of.
	reported, read string
	// own are the commitments of the ConfigMap.
	own []commitment.Commitment
	// end is when the first commitment of own ends; zero if none does.
	end time.Time
	// ended are the IDs of AWS's commitments whose end is reported.
	ended map[string]bool
	// kept is what the ConfigMap of Records has.
	kept kept
}

// New returns Commitments without a list; Run reads it.
func New(c Config) (*Commitments, error) {
	if c.ConfigMap.Name == "" || c.Reader == nil || c.Client == nil || c.Events == nil || c.Leading == nil || c.Types == nil || c.Changed == nil || c.Registerer == nil {
		return nil, errors.New("commitments: ConfigMap, Reader, Client, Events, Leading, Types, Changed and Registerer are required")
	}
	if !(c.Share > 0 && c.Share <= 1) {
		return nil, fmt.Errorf("commitments: Share: a share above 0, at most 1, is expected, got %v", c.Share)
	}
	out := &Commitments{config: c, ended: map[string]bool{}, answered: make(chan struct{}, 1)}
	if err := c.Registerer.Register(newMetrics(out)); err != nil {
		return nil, fmt.Errorf("commitments: %w", err)
	}
	return out, nil
}

// List returns the commitments; the caller must not change them. It is the same list while nothing has changed.
func (c *Commitments) List() []commitment.Commitment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// Run reads the ConfigMap, and AWS in a goroutine of its own, until ctx ends.
func (c *Commitments) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	if c.config.Account != nil {
		group.Go(func() { c.followAccount(ctx) })
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		c.refresh(ctx, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-c.answered:
		}
	}
}

// refresh reads the ConfigMap once, and makes the current list of its commitments and of those that AWS returned.
func (c *Commitments) refresh(ctx context.Context, now time.Time) {
	c.readConfigMap(ctx, now)
	c.dropEnded(ctx, now)
	c.keepAccount(ctx, now)
	c.replace(ctx, Shared(Merge(c.own, c.running(ctx, now)), c.config.Share))
}

// dropEnded drops what has ended of a list that cannot be read any more: no new reading of it does.
func (c *Commitments) dropEnded(ctx context.Context, now time.Time) {
	var left []commitment.Commitment
	var faults []commitment.Fault
	for i := range c.own {
		if !c.own[i].Ended(now) {
			left = append(left, c.own[i])
			continue
		}
		faults = append(faults, commitment.Fault{Entry: c.own[i].ID, Message: "end: it ended at " + c.own[i].End.UTC().Format(time.RFC3339)})
	}
	if len(faults) == 0 {
		return
	}
	c.own = left
	if c.config.Leading() {
		c.leaveOut(ctx, c.object(), faults)
	}
}

// readConfigMap reads the ConfigMap once. One that does not exist has no commitments.
func (c *Commitments) readConfigMap(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	object := &corev1.ConfigMap{}
	err := c.config.Reader.Get(ctx, c.config.ConfigMap, object)
	if apierrors.IsNotFound(err) {
		object, err = &corev1.ConfigMap{}, nil
	}
	if err != nil {
		c.fail(ctx, fmt.Sprintf("reading ConfigMap %s: %v", c.config.ConfigMap, err))
		return
	}
	version := string(object.UID) + "/" + object.ResourceVersion
	if version == c.read && version == c.reported && (c.end.IsZero() || now.Before(c.end)) {
		c.succeed()
		return
	}
	list, faults, err := commitment.Parse([]byte(object.Data[Key]), now)
	c.report(ctx, object, version, faults, err)
	if err != nil {
		c.fail(ctx, fmt.Sprintf("ConfigMap %s: data[%s]: %v", c.config.ConfigMap, Key, err))
		return
	}
	c.own, c.read, c.end = list, version, firstEnd(list)
	c.succeed()
}

// report records an Event for each mistake of a version of the ConfigMap, and for each commitment of it that ends later.
func (c *Commitments) report(ctx context.Context, object *corev1.ConfigMap, version string, faults []commitment.Fault, err error) {
	known := version == c.reported
	if known {
		faults = slices.DeleteFunc(faults, func(f commitment.Fault) bool {
			return !slices.ContainsFunc(c.own, func(was commitment.Commitment) bool { return was.ID == f.Entry })
		})
	}
	if !c.config.Leading() {
		if len(faults) > 0 {
			c.reported = "" // All of it, once this launcher leads.
		}
		return
	}
	c.reported = version
	if err != nil && !known {
		c.config.Events.Eventf(object, corev1.EventTypeWarning, "CommitmentsUnreadable", "data[%s]: %v; the commitments that were read last stay in use", Key, err)
	}
	c.leaveOut(ctx, object, faults)
}

// leaveOut records that commitments are left out.
func (c *Commitments) leaveOut(ctx context.Context, object *corev1.ConfigMap, faults []commitment.Fault) {
	for i, f := range faults {
		klog.FromContext(ctx).Info("A commitment is left out", "configMap", c.config.ConfigMap, "commitment", f.Entry, "reason", f.Message)
		if i == mostEvents-1 && len(faults) > mostEvents {
			c.config.Events.Eventf(object, corev1.EventTypeWarning, "CommitmentLeftOut", "left out as well: %d more; the log has all", len(faults)-i)
			break
		}
		c.config.Events.Eventf(object, corev1.EventTypeWarning, "CommitmentLeftOut", "%.200s: %.500s; it is left out", f.Entry, f.Message)
	}
}

// fail records why the ConfigMap cannot be read. The log has each reason once.
func (c *Commitments) fail(ctx context.Context, problem string) {
	c.mu.Lock()
	before := c.problem
	c.problem = problem
	c.mu.Unlock()
	if before != problem {
		klog.FromContext(ctx).Error(nil, "Commitments cannot be read: the last ones stay in use", "configMap", c.config.ConfigMap, "reason", problem)
	}
}

func (c *Commitments) succeed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problem = ""
}

// replace makes the list the current one.
func (c *Commitments) replace(ctx context.Context, list []commitment.Commitment) {
	c.mu.Lock()
	same := reflect.DeepEqual(c.list, list)
	if !same {
		c.list = list
	}
	c.mu.Unlock()
	if !same {
		klog.FromContext(ctx).V(2).Info("Commitments have changed", "configMap", c.config.ConfigMap, "commitments", len(list))
		c.config.Changed()
	}
}

// firstEnd returns when the first of the commitments ends; zero if none does.
func firstEnd(list []commitment.Commitment) time.Time {
	var first time.Time
	for i := range list {
		if end := list[i].End; !end.IsZero() && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	return first
}
