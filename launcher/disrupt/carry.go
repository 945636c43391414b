package disrupt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

const (
	// busyTimeout is longer than the 5 s for which the scheduler waits for the taint to reach its cache.
	busyTimeout = 7 * time.Second
	roomTimeout = 15 * time.Second
	// regainWithin is how long a move waits for lost leadership. A Lease that is renewed late has no other holder. If the
	// move ended, the nodes launched for it would be in no move, and other decisions would be made around them.
	regainWithin = 30 * time.Second
)

// moving is a move in progress. It belongs to the move's goroutine.
type moving struct {
	Move
	nodes   []string
	started time.Time
	// halfway is true where cordoning has begun and is not complete.
	halfway bool
	// settled is true once the pods have had reservations.
	settled bool
	// idle and busy are the scheduler's answers about nodes.
	idle map[string]bool
	busy map[string]string
	// asked is when the question that has no answer yet was first asked; zero where there is none.
	asked time.Time
	// failing is since when cordoning the nodes fails, and failure the last error; zero where it does not.
	failing time.Time
	failure error
	// covered are the pods that have a reservation. confirmed is when the scheduler last confirmed it.
	covered   map[types.UID]bool
	confirmed time.Time
	refused   string
	// replacements are the names of the NodeClaims launched for the move, and spent what they cost per hour.
	replacements []string
	spent        float64
	// cordoned is true once the nodes have been cordoned.
	cordoned bool
	// protected is since when something blocks the move.
	protected time.Time
	// deleting is true where deletion of the claims has begun, done where all of them are being deleted.
	deleting, done bool
	// recorded are the reasons of the Events recorded so far.
	recorded map[string]bool
}

// carry carries out one move. It ends with the move, when leadership is lost for longer than regainWithin, or with ctx. The
// sweep removes the cordons that it leaves. If the claims are being deleted, the budgets keep their places: the ledger
// counts deleted claims itself.
func (e *Executor) carry(ctx context.Context, m *moving) {
	defer e.leave(m.Claims)
	defer e.settle(m)
	defer func() {
		if !m.done {
			e.config.Ledger.Release(uids(m.Claims)...)
		}
	}()
	logger := klog.FromContext(ctx).WithValues("nodes", m.nodes, "reason", m.why())
	logger.Info("disrupting node(s)", "command", m.Message)
	for {
		effects, cancel, ok := e.config.Guard.Context(ctx)
		if !ok && e.awaitLeadership(ctx) {
			m.forgetAnswers()
			continue
		}
		if !ok {
			logger.Info("Move ends, leadership was lost")
			return
		}
		over, wait, err := e.step(klog.NewContext(effects, logger), m)
		cancel()
		if err != nil && !errors.Is(context.Cause(effects), leadership.ErrLost) {
			logger.V(2).Info("Step of a move failed, will retry", "err", err)
		}
		if over {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// awaitLeadership waits for leadership for at most regainWithin, and reports whether this process leads again.
func (e *Executor) awaitLeadership(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, regainWithin)
	defer cancel()
	_, done, err := e.config.Guard.Wait(ctx)
	if err != nil {
		return false
	}
	done()
	return true
}

// forgetAnswers drops the scheduler's answers, and since when cordoning fails: another scheduler may lead now, and this process did not for a while.
func (m *moving) forgetAnswers() {
	clear(m.idle)
	clear(m.busy)
	m.asked, m.confirmed, m.covered = time.Time{}, time.Time{}, nil
	m.failing, m.failure = time.Time{}, nil
}

// step observes the move and takes its next step. over is true where the move has ended, wait is the time until the next
// step.
func (e *Executor) step(ctx context.Context, m *moving) (over bool, wait time.Duration, err error) {
	seen, err := e.look(ctx, m)
	if err != nil {
		return false, lookPeriod, err
	}
	step, why := Next(seen.facts)
	klog.FromContext(ctx).V(4).Info("Move", "step", step, "why", why)
	wait = lookPeriod
	switch step {
	case Cordon:
		err = e.cordon(ctx, m, seen)
		m.tried(err)
	case AskBusy, AskRoom:
		err = e.ask(ctx, m, seen, step)
	case Await:
		e.event(m, seen, "DisruptionWaitingReadiness", "Waiting on readiness to continue disruption")
		wait = awaitPeriod
	case Delete:
		err = e.remove(ctx, m, seen)
	case CallOff:
		return true, 0, e.callOff(ctx, m, seen, why)
	case Done:
		m.done = true
		return true, 0, nil
	}
	return false, wait, err
}

// cordon cordons all nodes and sets the condition DisruptionReason of their claims. Earlier answers of the scheduler are
// dropped.
func (e *Executor) cordon(ctx context.Context, m *moving, seen *observation) error {
	clear(m.idle)
	m.halfway = true
	for i, name := range m.nodes {
		if err := e.config.Ender.Cordon(ctx, name, CordonedBy); err != nil {
			return err
		}
		if err := e.condition(ctx, m.Claims[i], m.why()); err != nil {
			return err
		}
	}
	what := string(m.Reason)
	if m.Message != "" {
		what += ": " + m.Message
	}
	e.event(m, seen, "DisruptionLaunching", "Disrupting Node: "+what)
	m.halfway, m.cordoned = false, true
	return nil
}

// tried notes how cordoning the nodes went.
func (m *moving) tried(err error) {
	switch {
	case err == nil:
		m.failing = time.Time{}
	case m.failing.IsZero():
		m.failing = time.Now()
	}
	m.failure = err
}

// condition sets the condition DisruptionReason of a claim, or removes it where the reason is empty. It leaves a claim unchanged that
// is being deleted, or is about to be as EC2 takes its instance.
func (e *Executor) condition(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	err := leadership.RetryOnConflict(func() error {
		current := &karpv1.NodeClaim{}
		if err := e.config.Reader.Get(ctx, client.ObjectKeyFromObject(claim), current); err != nil {
			return client.IgnoreNotFound(err)
		}
		if current.UID != claim.UID || current.DeletionTimestamp != nil || terminate.Interrupted(current) {
			return nil
		}
		before := current.DeepCopy()
		set := current.StatusConditions()
		was := set.Get(karpv1.ConditionTypeDisruptionReason)
		switch {
		case reason != "" && was.IsTrue() && was.Reason == reason, reason == "" && was == nil:
			return nil
		case reason != "":
			set.SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, reason, reason)
		default:
			if err := set.Clear(karpv1.ConditionTypeDisruptionReason); err != nil {
				return err
			}
		}
		return client.IgnoreNotFound(e.config.Client.Status().Patch(ctx, current, nodeobj.ClaimStatus(before)))
	})
	if err != nil {
		return fmt.Errorf("writing condition %s of NodeClaim %s: %w", karpv1.ConditionTypeDisruptionReason, claim.Name, err)
	}
	return nil
}

// ask asks the scheduler when it is the move's turn. The pods may be others by then: the next step observes them again.
func (e *Executor) ask(ctx context.Context, m *moving, seen *observation, step Step) error {
	slots := e.asking
	if step == AskRoom && !seen.facts.covered() {
		slots = e.planning
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if step == AskBusy {
		return e.askBusy(ctx, m)
	}
	return e.askRoom(ctx, m, seen)
}

// askBusy asks the scheduler about each node that is not known to be idle. A question without an answer is asked again in
// the next step.
func (e *Executor) askBusy(ctx context.Context, m *moving) error {
	for _, name := range m.nodes {
		if m.idle[name] {
			continue
		}
		m.wait()
		askCtx, cancel := context.WithTimeout(ctx, busyTimeout)
		busy, reason, err := e.config.Asker.Busy(askCtx, &api.NodeBusy{NodeName: name, BuffersMove: true})
		cancel()
		switch {
		case err != nil:
			return err
		case busy:
			m.busy[name] = reason + " (the scheduler has something for the node)"
			return nil
		}
		m.answered()
		m.idle[name] = true
	}
	return nil
}

// wait sets asked, unless a question is without an answer already.
func (m *moving) wait() {
	if m.asked.IsZero() {
		m.asked = time.Now()
	}
}

func (m *moving) answered() { m.asked = time.Time{} }

// askRoom asks the scheduler for reservations for all pods that move. Pods that have one keep it.
func (e *Executor) askRoom(ctx context.Context, m *moving, seen *observation) error {
	q := &api.MakeRoom{NodeNames: m.nodes, Purpose: api.Purpose_PURPOSE_MOVE, Reason: m.why(), Avoid: m.Avoid}
	for _, pod := range seen.pods {
		q.Pods = append(q.Pods, string(pod.UID))
	}
	if m.MostPerHour != nil {
		q.Bound = &api.LaunchBound{MostPerHour: max(*m.MostPerHour-m.spent, 0), SpotToSpot: e.config.SpotToSpot}
	}
	m.wait()
	askCtx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	answer, err := e.config.Asker.MakeRoom(askCtx, q)
	if err != nil {
		return err
	}
	m.answered()
	for _, name := range answer.GetNodeClaims() {
		if !slices.Contains(m.replacements, name) {
			m.replacements = append(m.replacements, name)
		}
	}
	m.spent += answer.GetPerHour()
	if m.refused = answer.GetNoRoom(); m.refused != "" {
		return nil
	}
	m.confirmed, m.covered = time.Now(), make(map[types.UID]bool, len(seen.pods))
	for _, pod := range seen.pods {
		m.covered[pod.UID] = true
	}
	e.settle(m)
	return nil
}

// remove deletes the claims, one after the other. Package terminate does the rest.
func (e *Executor) remove(ctx context.Context, m *moving, seen *observation) error {
	if !m.deleting {
		decision := m.decision()
		e.event(m, seen, "DisruptionTerminating", "Disrupting Node: "+string(m.Reason))
		for _, c := range m.Claims {
			e.config.Metrics.Decided(c.Labels[karpv1.NodePoolLabelKey], decision, m.why(), m.Type)
		}
		klog.FromContext(ctx).Info("Deleting the NodeClaims of a move, its pods have reservations", "decision", decision, "replacements", m.replacements)
		if m.OnDelete != nil {
			m.OnDelete()
		}
	}
	m.deleting = true
	var errs []error
	for _, c := range m.Claims {
		errs = append(errs, e.config.Ender.Begin(ctx, c, m.why()))
	}
	return errors.Join(errs...)
}

// decision returns the value of Karpenter's metric label decision.
func (m *moving) decision() string {
	if len(m.replacements) > 0 {
		return "replace"
	}
	return "delete"
}

// callOff removes what the move has done, except on nodes that terminate for another reason. When the cordons are removed, the scheduler releases the reservations.
func (e *Executor) callOff(ctx context.Context, m *moving, seen *observation, why string) error {
	klog.FromContext(ctx).Info("Move is called off", "why", why, "replacements", m.replacements)
	if len(m.replacements) > 0 {
		e.config.Metrics.QueueFailed(m.decision(), m.why(), m.Type)
	} else {
		e.config.Metrics.ValidationFailed(m.Type)
	}
	e.backOff(m.Claims, why == seen.facts.arrived())
	m.recorded = nil
	e.event(m, seen, "DisruptionBlocked", "Disruption called off: "+why)
	if m.Type != "" {
		e.event(m, seen, "ConsolidationRejected", fmt.Sprintf("Consolidation rejected: %s, reason: %s", m.Message, why))
	}
	var stay []*karpv1.NodeClaim
	for i, c := range m.Claims {
		if !seen.facts.Nodes[i].Terminating { // One that terminates keeps the cordon: its termination has found it there.
			stay = append(stay, c)
		}
	}
	return e.release(ctx, stay, CordonedBy)
}

// release removes the conditions DisruptionReason of the claims, and the cordons of an owner. The condition goes first: the sweep finds what is left by
// the cordon alone.
func (e *Executor) release(ctx context.Context, claims []*karpv1.NodeClaim, by string) error {
	var errs []error
	for _, c := range claims {
		err := e.condition(ctx, c, "")
		if err == nil {
			err = e.config.Ender.Uncordon(ctx, c.Status.NodeName, by)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// event records an Event about every claim and node of the move, once per reason.
func (e *Executor) event(m *moving, seen *observation, reason, message string) {
	if m.recorded[reason] {
		return
	}
	if m.recorded == nil {
		m.recorded = map[string]bool{}
	}
	m.recorded[reason] = true
	message = strings.TrimSpace(message)
	for _, c := range m.Claims {
		e.config.Events.Eventf(c, corev1.EventTypeNormal, reason, "%s", message)
	}
	for _, n := range seen.nodes {
		e.config.Events.Eventf(n, corev1.EventTypeNormal, reason, "%s", message)
	}
}
