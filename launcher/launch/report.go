package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// explain describes failures by EC2's error codes, with what lifts them.
func explain(failures []cloud.OfferingFailure) string {
	if len(failures) == 0 {
		return "none of its instance types is offered and available in its zones and capacity types"
	}
	list := make([]ec2error.Failure, 0, len(failures))
	for _, f := range failures {
		list = append(list, ec2error.Failure{
			Refusal: ec2error.Refusal{Code: f.Reason, Since: f.Since, Attempts: f.Attempts}, Message: f.Message,
			InstanceType: f.Option.InstanceType, CapacityType: f.Option.CapacityType, Zone: f.Option.Zone,
		})
	}
	return ec2error.NoInstance + ec2error.Summarize(list).String()
}

// reasonOf returns the one reason that all failures share, or else insufficient capacity.
func reasonOf(failures []cloud.OfferingFailure) string {
	reason := ""
	for _, f := range failures {
		if f.Condition == "" || reason != "" && reason != f.Condition {
			return ec2error.ReasonInsufficientCapacity
		}
		reason = f.Condition
	}
	return cmp.Or(reason, ec2error.ReasonInsufficientCapacity)
}

// reasonMinValues is the reason of a claim that names fewer values than its minValues ask for, where EC2 refused none of its offerings.
const reasonMinValues = "MinValuesNotMet"

// tooFewValues returns the reason and the message of claims that have fewer values left than their minValues. Only where EC2 refused offerings
// is the reason a lack of capacity: the scheduler leaves out the claim's offerings then, in all NodePools. It does not where the launcher offers
// none of them meanwhile.
func tooFewValues(err error, failures []cloud.OfferingFailure) (reason, message string) {
	if len(failures) == 0 {
		return reasonMinValues, err.Error()
	}
	reason = ec2error.ReasonInsufficientCapacity
	if shared := reasonOf(failures); ec2error.HeldByLauncher(shared) {
		reason = shared
	}
	return reason, err.Error() + ": " + explain(failures)
}

const (
	// showAgain is how often the condition of a waiting claim is written while the error stays the same.
	showAgain = 30 * time.Second
	// mostEvents bounds the Events about one waiting claim.
	mostEvents = 5
)

// trouble describes attempts that end in errors, one after the other. The zero value means that there are none.
type trouble struct {
	code ec2error.Code
	// since is the first attempt's end; attempts is how many there have been.
	since    time.Time
	attempts int
	// text is for the condition.
	text string
	// shownAt is when the condition was last written, with the code shown; events are those recorded so far.
	shownAt time.Time
	shown   ec2error.Code
	events  int
}

// next returns the trouble after one more attempt that ended in err.
func (t trouble) next(err error, now time.Time) trouble {
	code, operation := ec2error.Of(err)
	message := err.Error()
	if e, ok := cloud.AsLaunch(err); ok {
		code, message = cmp.Or(e.Code, code), e.Message
	} else if apierrors.ReasonForError(err) != "" {
		code, operation = "", ""
	}
	if t.attempts == 0 {
		t.since = now
	}
	t.code = code
	t.attempts++
	switch code {
	case "":
		t.text = fmt.Sprintf("no launch since %s, attempt %d", ec2error.Clock(t.since), t.attempts)
	default:
		t.text = fmt.Sprintf("%s from %s since %s, attempt %d", code, cmp.Or(operation, "EC2"), ec2error.Clock(t.since), t.attempts)
	}
	t.text += ": " + ec2error.Clip(message)
	if remedy := code.Remedy(""); remedy != "" {
		t.text += ". What to do: " + remedy
	}
	return t
}

// due reports whether the condition is to be written again, and whether an Event is to be recorded.
func (t trouble) due(now time.Time) (condition, event bool) {
	changed := t.shownAt.IsZero() || t.shown != t.code
	return changed || now.Sub(t.shownAt) >= showAgain, changed && t.events < mostEvents
}

// note reports an error that may pass: in the log, in the metrics and on the claims.
func (g *group) note(ctx context.Context, err error) {
	now := time.Now()
	g.trouble = g.trouble.next(err, now)
	klog.FromContext(ctx).Error(err, "Launch did not succeed, trying again", "nodeClaims", len(g.claims), "launch", g.id,
		"code", g.trouble.code, "since", g.trouble.since.UTC().Format(time.RFC3339), "attempt", g.trouble.attempts)
	cause := cloud.CauseTransient
	if e, ok := cloud.AsLaunch(err); ok {
		cause = e.Cause
	}
	g.metrics.errors.WithLabelValues(string(cmp.Or(g.trouble.code, otherError))).Inc()
	g.metrics.causes.WithLabelValues(string(cause)).Inc()
	if g.trouble.code != "" && !cause.Passing() {
		g.metrics.codes.WithLabelValues(string(g.trouble.code)).Inc()
	}
	g.waits.set(g, g.trouble.code, len(g.claims)+len(g.portion.rest))
	condition, event := g.trouble.due(now)
	if !condition {
		return
	}
	effects, cancel, ok := g.config.Guard.Context(ctx)
	defer cancel()
	if !ok {
		return
	}
	g.trouble.shownAt, g.trouble.shown = now, g.trouble.code
	if event {
		g.trouble.events++
	}
	each(g.claims, func(c *karpv1.NodeClaim) error {
		err := g.notLaunched(effects, c, func() {
			c.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, ec2error.ReasonLaunchPending, g.trouble.text)
		})
		if err == nil && event {
			g.config.Events.Eventf(c, corev1.EventTypeWarning, "LaunchPending", "%s", g.trouble.text)
		}
		return err // An error of this write is ignored: the condition only informs, and the next attempt may succeed.
	})
}

// recovered ends the trouble after an attempt without an error.
func (g *group) recovered(ctx context.Context) {
	if g.trouble.attempts == 0 {
		return
	}
	klog.FromContext(ctx).Info("Launching goes on", "launch", g.id, "code", g.trouble.code,
		"since", g.trouble.since.UTC().Format(time.RFC3339), "attempts", g.trouble.attempts)
	g.trouble = trouble{events: g.trouble.events}
	g.waits.set(g, "", 0)
}

// fail ends claims that got no instance: condition, Event, message on the stream, deletion. Claims that cannot be written stay in the group.
func (g *group) fail(ctx context.Context, claims []*karpv1.NodeClaim, reason, message string) error {
	g.claims = slices.DeleteFunc(slices.Clone(g.claims), func(c *karpv1.NodeClaim) bool { return slices.Contains(claims, c) })
	var errs []error
	for _, c := range claims {
		if err := g.end(ctx, c, reason, message); err != nil {
			errs = append(errs, err)
			g.claims = append(g.claims, c)
		}
	}
	return errors.Join(errs...)
}

func (g *group) end(ctx context.Context, c *karpv1.NodeClaim, reason, message string) error {
	err := g.notLaunched(ctx, c, func() { c.StatusConditions().SetFalse(karpv1.ConditionTypeLaunched, reason, message) })
	if errors.Is(err, errGone) || errors.Is(err, errLaunched) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing status of NodeClaim %s: %w", c.Name, err)
	}
	g.config.Failed(c, reason, message)
	if err := g.config.Client.Delete(ctx, c, client.Preconditions{UID: &c.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting NodeClaim %s: %w", c.Name, err)
	}
	if logger := klog.FromContext(ctx); reason == ec2error.ReasonInsufficientCapacity {
		logger.Info("Launch failed", "nodeClaim", klog.KObj(c), "reason", reason, "message", message)
	} else {
		logger.Error(errors.New(message), "Launch failed", "nodeClaim", klog.KObj(c), "reason", reason)
	}
	g.config.Events.Eventf(c, corev1.EventTypeWarning, eventOf(reason), "%s", message)
	return nil
}

// eventOf returns Karpenter's Event for a reason: it reports quotas and addresses as insufficient capacity.
func eventOf(reason string) string {
	switch reason {
	case ec2error.ReasonInsufficientCapacity, ec2error.ReasonVCPULimit, ec2error.ReasonSpotQuota, ec2error.ReasonFleetQuota,
		ec2error.ReasonQuota, ec2error.ReasonInsufficientAddresses:
		return "InsufficientCapacityError"
	}
	return reason
}

// silent returns what to do when the current attempt has no answer for long: the claims say so. It changes nothing of the group's, because
// the attempt goes on.
func (g *group) silent(ctx context.Context) func() {
	began := time.Now()
	claims := make([]*karpv1.NodeClaim, 0, len(g.claims))
	for _, c := range g.claims {
		claims = append(claims, c.DeepCopy())
	}
	return func() {
		message := fmt.Sprintf("%s from EC2 since %s: the attempt goes on. What to do: %s", ec2error.NoAnswer, ec2error.Clock(began),
			ec2error.NoAnswer.Remedy(""))
		klog.FromContext(ctx).Error(errors.New(message), "Launch has no answer yet", "nodeClaims", len(claims))
		effects, cancel, ok := g.config.Guard.Context(ctx)
		defer cancel()
		if !ok {
			return
		}
		each(claims, func(c *karpv1.NodeClaim) error {
			err := g.notLaunched(effects, c, func() {
				c.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, ec2error.ReasonLaunchPending, message)
			})
			if err == nil {
				g.config.Events.Eventf(c, corev1.EventTypeWarning, "LaunchPending", "%s", message)
			}
			return err // An error of this write is ignored: the condition only informs.
		})
	}
}

// failures returns the offerings that gave no instance, and those that were not tried because EC2 refused them a moment ago.
func (g *group) failures() []cloud.OfferingFailure {
	return slices.Concat(slices.Collect(maps.Values(g.failed)), g.refused)
}

// tooLate returns why claims had no instance by their deadline.
func (g *group) tooLate() string {
	if g.trouble.attempts > 0 {
		defer func() { g.trouble = trouble{} }() // It ended nothing.
		return g.trouble.text
	}
	return explain(g.failures())
}
