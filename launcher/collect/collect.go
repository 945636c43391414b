package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// Reason is Karpenter's label value for the termination of collected NodeClaims.
const Reason = "garbage_collected"

const (
	// early is the period of the first rounds after leadership was acquired, when a crash may have left garbage.
	early       = 10 * time.Second
	earlyRounds = 20
	// period is that of the later rounds. It is longer by perInstance for each instance, and longest at most: the answer about an instance takes 0.1 ms of
	// CPU, and a thousand of them are a request of their own.
	period      = 2 * time.Minute
	perInstance = 30 * time.Millisecond
	longest     = 5 * time.Minute
	// perCall is the number of instances that one call terminates.
	perCall = 100
)

// Instances is the part of cloud.Cloud that collection needs.
type Instances interface {
	// Instances describes all instances of the cluster.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
	// Terminate terminates instances.
	Terminate(ctx context.Context, instanceIDs []string) error
	// Tag writes tags on one instance.
	Tag(ctx context.Context, instanceID string, tags map[string]string) error
	// ShiftedZones returns the IDs of the zones that a zonal shift is away from, and whether they are known yet.
	ShiftedZones() (zones map[string]bool, known bool)
	// Sweep deletes unused resources.
	Sweep(ctx context.Context) error
}

// Ender terminates NodeClaims; *terminate.Terminator is one.
type Ender interface {
	// Begin starts the termination of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Config holds the dependencies of a Collector. Every field is required unless its comment says otherwise.
type Config struct {
	// Reader reads NodeClaims and Nodes from the API server: a cache that lags would show owned instances as leaked.
	Reader client.Reader
	// Client reads them from the cache, with the indexes of package index, and writes: where nothing seems leaked in the cache, nothing is.
	Client client.Client
	// Cloud has the instances.
	Cloud Instances
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Ender terminates NodeClaims.
	Ender Ender
	// Events records slipway's Events.
	Events announce.EventRecorder
	// Price writes into the annotations of a claim what its node costs as the instance. Nil leaves them. Not required.
	Price func(ctx context.Context, claim *karpv1.NodeClaim, instance cloud.Instance) error
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may terminate all.
	// Not required.
	Ours func(claim *karpv1.NodeClaim) bool
	// Alone reports whether no Karpenter is running: then its leaked instances are collected too. Nil means true. Not required.
	Alone func() bool
}

// Collector terminates instances and claims without an owner, and writes down which capacity type an instance has after its own has ended. It is not safe for concurrent use.
type Collector struct {
	config Config
	// instances is how many the last round has seen.
	instances int
	// refused are the instances, by ID, that EC2 did not terminate in the last round, though the API server shows no owner of them.
	refused map[string]bool
	// nodeless is since when claims have no Node, by UID.
	nodeless map[types.UID]time.Time
}

// New returns a Collector; Run starts it.
func New(c Config) (*Collector, error) {
	if c.Reader == nil || c.Client == nil || c.Cloud == nil || c.Guard == nil || c.Ender == nil || c.Events == nil {
		return nil, errors.New("collect: Reader, Client, Cloud, Guard, Ender and Events are required")
	}
	if c.Price == nil {
		c.Price = func(context.Context, *karpv1.NodeClaim, cloud.Instance) error { return nil }
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	if c.Alone == nil {
		c.Alone = func() bool { return true }
	}
	return &Collector{config: c}, nil
}

// Run collects until ctx ends, while leading: often at first, each time that leadership was acquired, and then every two minutes, and every five in a
// cluster of thousands of nodes. A failed round is repeated soon, and each time later: EC2 may refuse to terminate an instance for ever.
func (c *Collector) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		term, cancel, err := c.config.Guard.Wait(ctx)
		if err == nil {
			c.rounds(term)
			cancel()
		}
	}
	return nil
}

// rounds collects until ctx ends, which is with leadership.
func (c *Collector) rounds(ctx context.Context) {
	failed := 0
	c.nodeless = nil // Another replica may have led meanwhile, and Nodes may have been there.
	for round := 0; ; round++ {
		err := c.round(ctx)
		wait := min(period+time.Duration(c.instances)*perInstance, longest)
		switch {
		case err != nil:
			wait = min(early<<min(failed, 5), wait)
			failed++
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Could not collect garbage; trying again", "failures", failed)
			}
		case round < earlyRounds:
			wait, failed = early, 0
		default:
			failed = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Collect runs one round, after waiting for leadership.
func (c *Collector) Collect(ctx context.Context) error {
	ctx, cancel, err := c.config.Guard.Wait(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return c.round(ctx)
}

// round runs one round. ctx is an effect's.
func (c *Collector) round(ctx context.Context) error {
	// The cache says whether there may be garbage, the API server what is. Most rounds find none, and read nothing from the API server.
	state, err := c.observe(ctx, c.config.Client, client.UnsafeDisableDeepCopy)
	if err != nil {
		return err
	}
	garbage := Decide(state)
	if !c.confirmed(garbage) {
		if state, err = c.observe(ctx, c.config.Reader); err != nil {
			return err
		}
		garbage = Decide(state)
	}
	return errors.Join(c.end(ctx, garbage), c.config.Cloud.Sweep(ctx))
}

// confirmed reports whether the API server has shown before that all of the garbage is such. EC2 may refuse to terminate an instance for ever, and each
// round would read the whole cluster for it. An instance that had no owner, and no launch in progress, gets one only from a NodeClaim that is written by
// hand, and a Node by joining late: the cache has both.
func (c *Collector) confirmed(g Garbage) bool {
	return len(g.Claims)+len(g.Nodeless)+len(g.Outlived) == 0 && !slices.ContainsFunc(g.Instances, func(i cloud.Instance) bool { return !c.refused[i.ID] })
}

func (c *Collector) observe(ctx context.Context, reader client.Reader, options ...client.ListOption) (State, error) {
	// Shifts are read before the instances: one that ends in between may have hidden some.
	shifted, known := c.config.Cloud.ShiftedZones()
	// Instances are read first: a claim is older than its instance, so each instance seen here has its claim in the later list.
	instances, err := c.config.Cloud.Instances(ctx, cloud.Selector{})
	if err != nil {
		return State{}, fmt.Errorf("describing instances: %w", err)
	}
	c.instances = len(instances)
	claims := &karpv1.NodeClaimList{}
	if err := reader.List(ctx, claims, options...); err != nil {
		return State{}, fmt.Errorf("listing NodeClaims: %w", err)
	}
	nodes := &corev1.NodeList{}
	// All Nodes are listed: the Node of a NodeClaim that a user created may have no NodePool label.
	if err := reader.List(ctx, nodes, options...); err != nil {
		return State{}, fmt.Errorf("listing Nodes: %w", err)
	}
	ready := map[string]bool{}
	for i := range nodes.Items {
		if id := nodes.Items[i].Spec.ProviderID; id != "" {
			ready[id] = ready[id] || conditions.NodeReady(&nodes.Items[i])
		}
	}
	foreign := map[string]bool{}
	for i := range claims.Items {
		if !c.config.Ours(&claims.Items[i]) {
			foreign[claims.Items[i].Name] = true
		}
	}
	now := time.Now()
	return State{
		Now: now, Nodeless: c.withoutNode(claims.Items, nodes.Items, now), Instances: instances, Claims: claims.Items, Nodes: ready, Foreign: foreign, Shifted: shifted, ShiftsUnknown: !known,
		Beside: !c.config.Alone(),
	}, nil
}

func (c *Collector) end(ctx context.Context, g Garbage) error {
	log := klog.FromContext(ctx)
	var errs []error
	c.refused = map[string]bool{}
	for start := 0; start < len(g.Instances); start += perCall {
		var ids []string
		for _, i := range g.Instances[start:min(start+perCall, len(g.Instances))] {
			log.Info("Terminating an instance that no NodeClaim owns or waits for", "instanceID", i.ID, "launched", i.LaunchTime, "tags", i.Tags)
			ids = append(ids, i.ID)
		}
		if err := c.config.Cloud.Terminate(ctx, ids); err != nil {
			errs = append(errs, fmt.Errorf("terminating %s that no NodeClaim waits for: %w", catalog.CountText(len(ids), "instance"), err))
			for _, id := range ids { // Those of them that EC2 did terminate are no garbage in the next round.
				c.refused[id] = true
			}
		}
	}
	for _, t := range g.Untagged {
		if err := c.config.Cloud.Tag(ctx, t.InstanceID, t.Tags); err != nil && !cloud.IsNotFound(err) {
			errs = append(errs, err)
			break // The next round writes the rest: tags are for people.
		}
	}
	for _, o := range g.Outlived {
		errs = append(errs, c.follow(ctx, o))
	}
	for i := range g.Claims {
		log.Info("Terminating a NodeClaim whose instance no longer exists", "nodeClaim", klog.KObj(&g.Claims[i]), "providerID", g.Claims[i].Status.ProviderID)
		errs = append(errs, c.endClaim(ctx, &g.Claims[i]))
	}
	for _, claim := range g.Nodeless {
		log.Info("Terminating a NodeClaim whose Node was deleted without its finalizer", "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName, "providerID", claim.Status.ProviderID)
		errs = append(errs, c.endClaim(ctx, claim))
	}
	return errors.Join(errs...)
}

func (c *Collector) endClaim(ctx context.Context, claim *karpv1.NodeClaim) error {
	if err := c.config.Ender.Begin(ctx, claim, Reason); err != nil {
		return fmt.Errorf("end NodeClaim %s: %w", claim.Name, err)
	}
	return nil
}
