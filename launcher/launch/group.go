package launch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// group is equal claims on their way to instances. One goroutine owns it.
type group struct {
	*Launcher
	// claims still without an instance, in the order of their names.
	claims []*karpv1.NodeClaim
	// id of the attempt under way; empty where the next one starts afresh. asked says that this process has made the call,
	// so that its token makes repeating it harmless.
	id    string
	asked bool
	// failed are the offerings that gave nothing, with the reason.
	failed map[cloud.Option]string
	// lost is since when the instances of a call whose answer was lost are looked for.
	lost time.Time
}

// work brings a group to its end: every claim launched, failed or deleted. Errors that may pass are retried with backoff.
func (l *Launcher) work(ctx context.Context, claims []*karpv1.NodeClaim) {
	g := &group{Launcher: l, claims: claims, id: claims[0].Annotations[catalog.LaunchAnnotation], failed: map[cloud.Option]string{}}
	backoff := wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.5, Steps: 100, Cap: lastRetry}
	for len(g.claims) > 0 {
		effects, cancel, err := l.config.Guard.Wait(ctx)
		if err != nil {
			return // The process ends: the next one resumes from the annotation.
		}
		err = g.attempt(effects)
		cancel()
		pause := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			klog.FromContext(ctx).Error(err, "Launch did not succeed, trying again", "nodeClaims", len(g.claims), "launch", g.id)
			l.metrics.errors.Inc()
			pause = backoff.Step()
		case !g.lost.IsZero():
			pause = lookEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// attempt is one round:
//
//  1. drop claims that are deleted or out of time;
//  2. where an earlier process made a call, look for its instances and never repeat it;
//  3. otherwise choose what to ask for,
//  4. write the attempt's id on every claim,
//  5. call CreateFleet,
//  6. wait until EC2 shows what it launched and deal it to the claims.
func (g *group) attempt(ctx context.Context) error {
	if err := g.refresh(ctx); err != nil || len(g.claims) == 0 {
		return err
	}
	if g.id != "" && !g.asked {
		return g.resume(ctx)
	}
	input, done, err := g.input(ctx)
	if err != nil || done {
		return err
	}
	if g.id == "" {
		if err := g.stamp(ctx, uuid.NewString()); err != nil || len(g.claims) == 0 {
			return err
		}
	}
	input.LaunchID, input.Claims = g.id, g.claims
	g.asked = true
	out, err := g.config.Cloud.Launch(ctx, input)
	if class, broken := cloud.IsNodeClass(err); broken {
		return g.fail(ctx, g.claims, "NodeClassNotReady", class.Error())
	}
	if err != nil {
		return err
	}
	for _, f := range out.Failures {
		g.failed[key(f.Option)] = f.Reason
		g.metrics.failures.WithLabelValues(f.Reason).Inc()
	}
	return g.receive(ctx, out.InstanceIDs)
}

// refresh reads the claims anew and drops those that are gone or going.
func (g *group) refresh(ctx context.Context) error {
	var kept, late []*karpv1.NodeClaim
	for _, c := range g.claims {
		current := &karpv1.NodeClaim{}
		err := g.config.Reader.Get(ctx, client.ObjectKeyFromObject(c), current)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("reading NodeClaim %s: %w", c.Name, err)
		case err != nil, current.UID != c.UID, !current.DeletionTimestamp.IsZero(), current.Status.ProviderID != "":
		case time.Since(current.CreationTimestamp.Time) > launchTimeout:
			late = append(late, current)
		default:
			kept = append(kept, current)
		}
	}
	g.claims = kept
	if len(late) > 0 {
		return g.fail(ctx, late, "LaunchTimeout", fmt.Sprintf("no instance within %s: %s", launchTimeout, explain(g.failed)))
	}
	return nil
}

// input chooses what to ask EC2 for. done says that nothing is left to ask for, and that the claims have failed.
func (g *group) input(ctx context.Context) (in cloud.LaunchInput, done bool, err error) {
	first := g.claims[0]
	class := &awsv1.EC2NodeClass{}
	if err := g.config.Client.Get(ctx, types.NamespacedName{Name: first.Spec.NodeClassRef.Name}, class); err != nil {
		if client.IgnoreNotFound(err) == nil {
			message := fmt.Sprintf("EC2NodeClass %s does not exist", first.Spec.NodeClassRef.Name)
			return in, true, g.fail(ctx, g.claims, "NodeClassNotReady", message)
		}
		return in, false, err
	}
	offered, err := g.config.Cloud.InstanceTypes(ctx, class)
	if err != nil {
		return in, false, err
	}
	options, err := Options(first, offered, g.failed)
	if err != nil {
		return in, true, g.fail(ctx, g.claims, "InvalidRequirements", err.Error())
	}
	if len(options) == 0 {
		return in, true, g.fail(ctx, g.claims, "InsufficientCapacity", explain(g.failed))
	}
	in = cloud.LaunchInput{Class: class, Options: options, Labels: maps.Clone(first.Labels)}
	for _, t := range record.Taints(first) {
		in.Taints = append(in.Taints, cloud.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return in, false, nil
}

// stamp writes a new attempt's id on every claim, before the call. A claim that cannot be written takes no part in it.
func (g *group) stamp(ctx context.Context, id string) error {
	var stamped []*karpv1.NodeClaim
	results := each(g.claims, func(c *karpv1.NodeClaim) error {
		before := c.DeepCopy()
		c.Annotations[catalog.LaunchAnnotation] = id
		return g.config.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	var failed error
	for i, c := range g.claims {
		switch {
		case results[i] == nil && c.DeletionTimestamp.IsZero():
			stamped = append(stamped, c)
		case results[i] != nil && client.IgnoreNotFound(results[i]) != nil:
			failed = results[i]
		}
	}
	if failed != nil {
		// No call was made under this id: the next round reads the claims anew and writes another.
		return fmt.Errorf("writing the launch id: %w", failed)
	}
	g.claims, g.id, g.asked = stamped, id, false
	return nil
}

// receive waits until EC2 shows the instances and deals them to the claims; the claims left over need another attempt.
func (g *group) receive(ctx context.Context, ids []string) error {
	instances, err := g.visible(ctx, ids)
	if err != nil {
		return err
	}
	if err := g.deal(ctx, instances); err != nil {
		return err
	}
	g.id, g.asked = "", false
	return nil
}

func (g *group) visible(ctx context.Context, ids []string) ([]cloud.Instance, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	deadline := time.Now().Add(lookFor)
	for {
		instances, err := g.config.Cloud.Instances(ctx, cloud.Selector{IDs: ids})
		if err != nil {
			return nil, err
		}
		if len(instances) >= len(ids) || time.Now().After(deadline) {
			return slices.DeleteFunc(instances, func(i cloud.Instance) bool { return !alive(i) }), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(glanceEvery):
		}
	}
}

func alive(i cloud.Instance) bool {
	return i.State == cloud.StatePending || i.State == cloud.StateRunning
}
