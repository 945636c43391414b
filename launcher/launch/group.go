package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// group is a set of equal claims being launched. One goroutine owns it.
type group struct {
	*Launcher
	// claims of the current attempt still without an instance, in the order of their names; portion has those of later ones.
	claims  []*karpv1.NodeClaim
	portion portion
	// id is that of the current attempt; empty if the next attempt starts from scratch. fresh means that this process recorded the claims with
	// it and has not made its call. asked means that this process makes the call: the client token makes repeating it harmless, as long as the
	// call, input, is the same. lost means that a try of the call may have launched although its answer did not say so.
	id    string
	fresh bool
	asked bool
	lost  bool
	// shown are the IDs of the instances that the current attempt's call launched, once EC2 has shown them or has had its time to: there are no
	// others to look for. nil before that.
	shown []string
	// begun means that an earlier attempt may have written claims.
	begun bool
	input cloud.LaunchInput
	// mine are the IDs that this group has written or found: a claim with another ID belongs to another process.
	mine map[string]bool
	// first is the ID that the claims came with, while other claims with it wait for this group; took are the claims that it has ever had.
	first string
	took  map[types.UID]bool
	// failed are the offerings that gave no instance, with the reason.
	failed map[cloud.Option]cloud.OfferingFailure
	// offered are the class's instance types by name, from which the current attempt chose.
	offered map[string]catalog.InstanceType
	// profile is the name of the class's instance profile.
	profile string
	// refused are the offerings that the last choice left out because EC2 refused them a moment ago.
	refused []cloud.OfferingFailure
	// relaxed means that the current attempt could not keep minValues.
	relaxed bool
	// overlays are those that the current attempt's options have.
	overlays overlays
	// trouble is why the last attempts ended in errors.
	trouble trouble
	// since is when the search for the instances of a call with a lost answer began.
	since time.Time
}

// work runs a group until every claim is launched, failed or deleted.
func (l *Launcher) work(ctx context.Context, claims []*karpv1.NodeClaim) {
	id := claims[0].Annotations[catalog.LaunchAnnotation]
	if id != "" && !l.claim(id, claims) {
		return // Another group adds all claims of that call.
	}
	g := &group{
		Launcher: l, claims: claims, id: id, fresh: l.begin(id), mine: map[string]bool{id: true}, first: id, took: map[types.UID]bool{},
		failed: map[cloud.Option]cloud.OfferingFailure{},
	}
	defer func() {
		l.waits.set(g, "", 0)
		l.requeueMissed(g.first, g.took)
	}()
	for g.waiting() {
		l.waits.set(g, "", 0) // What an attempt under an earlier leadership ended in says nothing about the next one.
		effects, cancel, err := l.config.Guard.Wait(ctx)
		if err != nil {
			return // The process ends: the next one resumes from the annotation.
		}
		// Another process may have led before. It may have assigned the instances of this one's call, which counts as an earlier process's; and it may
		// have made the call whose instances this one did not find.
		g.asked, g.since = false, time.Time{}
		g.lead(ctx, effects)
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

// waiting reports whether there are claims to launch.
func (g *group) waiting() bool { return len(g.claims)+len(g.portion.rest) > 0 }

// lead makes attempts until every claim is launched, failed or deleted, or until effects ends. Transient errors are retried with backoff.
func (g *group) lead(ctx, effects context.Context) {
	backoff := newBackoff()
	for g.waiting() {
		g.next()
		silence := time.AfterFunc(silentAfter, g.silent(ctx))
		err := g.attempt(effects)
		silence.Stop()
		// Once the claims for later calls have another ID too, no claim of this group carries the first one any more: a group that searches for it adds none.
		if g.first != "" && g.id != "" && g.id != g.first && len(g.portion.rest) == 0 {
			g.requeueMissed(g.first, g.took)
			g.first = ""
		}
		pause := time.Duration(0)
		switch {
		case effects.Err() != nil:
			return
		case err != nil:
			g.note(ctx, err)
			pause = backoff.Step()
		case !g.since.IsZero():
			pause = lookEvery
			g.recovered(ctx)
		default:
			backoff = newBackoff()
			g.recovered(ctx)
		}
		select {
		case <-effects.Done():
			return
		case <-time.After(pause):
		}
	}
}

func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.5, Steps: 100, Cap: lastRetry}
}

// attempt is one round:
//
//  1. If an earlier process made a call, look for its instances and its claims.
//  2. Drop claims that are deleted or past their deadline.
//  3. Assign the instances found, and never repeat that call.
//  4. Otherwise choose what to request,
//  5. write the attempt's ID and the finalizer on every claim that was not recorded with them,
//  6. call CreateFleet,
//  7. wait until EC2 shows the launched instances, and assign them to the claims.
func (g *group) attempt(ctx context.Context) error {
	lost := g.id != "" && !g.asked && !g.fresh
	var found []cloud.Instance
	if lost {
		var err error
		if found, err = g.search(ctx); err != nil {
			return err
		}
	}
	if g.recorded() {
		g.claims = undeleted(ctx, g.config.Client, g.claims)
	} else if err := g.refresh(ctx, len(found)); err != nil {
		return err
	}
	if len(g.claims) == 0 {
		return nil
	}
	if lost {
		return g.resume(ctx, found)
	}
	if g.id == "" || g.fresh {
		input, done, err := g.choose(ctx)
		if err != nil || done {
			return err
		}
		if err := g.stamp(ctx); err != nil || len(g.claims) == 0 {
			return err
		}
		input.LaunchID, input.Claims = g.id, slices.Clone(g.claims)
		g.input, g.asked = input, true
	}
	err := g.call(ctx)
	g.resize(ctx, err)
	return err
}

// mayHaveLaunched reports whether a call that ended in err may have launched instances. One that EC2 throttled has not, nor one whose template was gone.
func mayHaveLaunched(err error) bool {
	e, ok := cloud.AsLaunch(err)
	return err != nil && (!ok || e.Lost || e.Cause != cloud.CauseThrottled && e.Cause != cloud.CauseTemplateGone)
}

// next takes the claims of the next call, unless the last one goes on for claims that there are.
func (g *group) next() {
	if len(g.claims) == 0 && g.id != "" {
		g.done()
	}
	if g.id == "" {
		g.claims = g.portion.take(g.claims)
	}
}

// resize adapts the next call to how the last one ended. One that was throttled is not repeated if it can be smaller, and if no earlier try of
// it launched anything.
func (g *group) resize(ctx context.Context, err error) {
	g.lost = g.lost || mayHaveLaunched(err)
	e, ok := cloud.AsLaunch(err)
	throttled, asked := ok && e.Cause == cloud.CauseThrottled, len(g.input.Claims)
	if err != nil && (!throttled || asked < 2) {
		return
	}
	if g.id != "" {
		found, err := g.config.Cloud.Instances(ctx, cloud.Selector{LaunchIDs: []string{g.id}})
		if err != nil {
			return
		}
		if len(found) > 0 || g.lost {
			g.asked = false // An answer was lost: the next rounds look for its instances, which EC2 shows late, and assign them.
		} else {
			g.done()
		}
	}
	g.portion.answered(asked, throttled)
}

// done ends the attempt: its call is not repeated, and the next attempt starts from scratch.
func (g *group) done() {
	g.config.Cloud.Settled(g.id)
	g.id, g.fresh, g.asked, g.lost, g.shown, g.since = "", false, false, false, nil, time.Time{}
}

// recorded reports whether claims were just created and nothing was done for them yet. Asking the API server for them would only cost time:
// writing the attempt's ID detects that one was changed or deleted, and an instance whose claim was recorded with the ID is terminated then.
func (g *group) recorded() bool {
	begun := g.begun || g.id != "" && !g.fresh
	return !begun && !slices.ContainsFunc(g.claims, func(c *karpv1.NodeClaim) bool { return time.Since(c.CreationTimestamp.Time) > recent })
}

// call makes the attempt's call, or repeats it.
func (g *group) call(ctx context.Context) error {
	out, err := g.config.Cloud.Launch(ctx, g.input)
	if class, broken := cloud.IsNodeClass(err); broken {
		return g.failClass(ctx, class)
	}
	if err != nil {
		return err
	}
	before := len(g.failed)
	var passing *cloud.OfferingFailure
	causes, codes := map[cloud.Cause]bool{}, map[ec2error.Code]bool{}
	for _, f := range out.Failures {
		g.metrics.failures.WithLabelValues(string(f.Reason)).Inc()
		causes[f.Cause] = true
		if f.Cause.Passing() {
			passing = &f
			continue
		}
		codes[f.Reason] = true
		g.failed[key(f.Option)] = f
	}
	for cause := range causes {
		if !cause.Passing() { // These count as errors once it is certain that nothing was launched.
			g.metrics.causes.WithLabelValues(string(cmp.Or(cause, cloud.CauseCapacity))).Inc()
		}
	}
	for code := range codes {
		g.metrics.codes.WithLabelValues(string(code)).Inc()
	}
	if err := g.receive(ctx, out.InstanceIDs); err != nil {
		return err
	}
	switch {
	case len(out.InstanceIDs) > 0 || len(g.failed) > before:
		return nil
	case passing != nil:
		return &cloud.LaunchError{Class: g.input.Class.Name, Cause: passing.Cause, Code: passing.Reason, Reason: passing.Condition, Message: passing.Message}
	}
	return errors.New("EC2 launched nothing and gave no new reason") // Without a pause this might repeat forever.
}

// failClass ends all claims because of an error of their class or its account.
func (g *group) failClass(ctx context.Context, class *cloud.NodeClassError) error {
	reason := "NodeClassNotReady"
	if class.Cause != "" {
		reason = class.Reason // EC2 was called, and returned this reason.
	}
	g.metrics.causes.WithLabelValues(string(cmp.Or(class.Cause, causeClass))).Inc()
	message := class.Error()
	if class.Code != "" {
		g.metrics.codes.WithLabelValues(string(class.Code)).Inc()
		if remedy := class.Code.Remedy(""); remedy != "" {
			message += ". What to do: " + remedy
		}
	}
	return g.fail(ctx, g.claims, reason, message)
}

// choose decides what to request from EC2. done means that nothing is left to request, and that the claims have failed.
func (g *group) choose(ctx context.Context) (in cloud.LaunchInput, done bool, err error) {
	first := g.claims[0]
	class, why, err := g.classOf(ctx, first)
	if err != nil {
		return in, false, err
	}
	if why != "" {
		return in, true, g.fail(ctx, g.claims, "NodeClassNotReady", why)
	}
	offered, err := g.config.Cloud.InstanceTypes(ctx, class)
	if broken, ok := cloud.IsNodeClass(err); ok {
		return in, true, g.failClass(ctx, broken)
	}
	if err != nil {
		return in, false, err
	}
	offered = overlaidTypes(g.config.Overlaid).or(ctx, first.Labels[karpv1.NodePoolLabelKey], offered)
	g.offered, g.profile = byName(offered), class.Status.InstanceProfile
	choice, err := Search{Claim: first, Types: offered, Failed: g.failed, BestEffort: g.config.MinValuesBestEffort}.Options()
	g.refused = choice.Refused
	if _, short := errors.AsType[*MinValuesError](err); short {
		reason, message := tooFewValues(err, g.failures())
		return in, true, g.fail(ctx, g.claims, reason, message)
	}
	if err != nil {
		return in, true, g.fail(ctx, g.claims, "InvalidRequirements", err.Error())
	}
	if len(choice.Options) == 0 {
		return in, true, g.fail(ctx, g.claims, reasonOf(g.failures()), explain(g.failures()))
	}
	g.relaxed, g.overlays = choice.Relaxed, overlaysOf(choice.Options, g.offered)
	in = cloud.LaunchInput{
		Class: class, Options: choice.Options, Tenancy: choice.Tenancy, Partition: choice.Partition, Labels: kubeletLabels(first.Labels),
		Hibernate:   class.Annotations[catalog.HibernateAnnotation] == "true" && record.StandbyOf(first).Waits(),
		Prioritized: class.Annotations[prioritizedAnnotation] == "true" || g.overlays.price || first.Annotations[v1alpha1.PriceOverlayAppliedAnnotationKey] != "",
	}
	for _, t := range record.Taints(first) {
		in.Taints = append(in.Taints, cloud.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return in, false, nil
}

// stamp writes a new attempt's ID on every claim before the call, and Karpenter's finalizer on a claim that lacks it: users create
// NodeClaims without one, and deleting such a claim would leave its instance behind. A claim that was recorded with all this is not written.
// A claim that cannot be written takes no part in the call.
func (g *group) stamp(ctx context.Context) error {
	id := g.id
	if !g.fresh {
		id = uuid.NewString()
	}
	g.id, g.fresh, g.begun = "", false, true
	g.mine[id] = true
	var stamped []*karpv1.NodeClaim
	results := each(g.claims, func(c *karpv1.NodeClaim) error {
		before := c.DeepCopy()
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, catalog.LaunchAnnotation, id)
		finalizer.Guard(c)
		g.overlays.annotate(c)
		if g.relaxed {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, karpv1.NodeClaimMinValuesRelaxedAnnotationKey, "true")
		}
		if equality.Semantic.DeepEqual(before.ObjectMeta, c.ObjectMeta) {
			return nil
		}
		return g.config.Client.Patch(ctx, c, node.ClaimMetadata(before))
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
		// No call was made with this ID: the next round reads the claims again and writes another ID.
		return fmt.Errorf("writing the launch id: %w", failed)
	}
	g.claims, g.id, g.asked = stamped, id, false
	return nil
}
