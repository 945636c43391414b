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
)

const (
	// busyTimeout is longer than the 5 s that the scheduler waits for the taint to reach its cache.
	busyTimeout = 7 * time.Second
	roomTimeout = 15 * time.Second
	// regainWithin is how long a move waits for leadership that is lost: a Lease that is renewed late is nobody else's. What was
	// launched would serve no move, and others would be decided on around it.
	regainWithin = 30 * time.Second
)

// moving is a move on its way. Its goroutine alone uses it.
type moving struct {
	Move
	nodes   []string
	started time.Time
	// halfway says that cordoning began and did not come to its end.
	halfway bool
	// settled says that the room for its pods was found once.
	settled bool
	// idle and busy are what the scheduler said of nodes.
	idle map[string]bool
	busy map[string]string
	// asked is since when a question has been without an answer.
	asked time.Time
	// covered are the pods that there is room for, confirmed when the scheduler said so last.
	covered   map[types.UID]bool
	confirmed time.Time
	refused   string
	// replacements that were launched, and what they cost.
	replacements []string
	spent        float64
	// protected is since when something speaks against the move.
	protected time.Time
	// deleting says that the deletion of the claims was begun, done that all of them are being deleted.
	deleting, done bool
	// said are the Events that were written.
	said map[string]bool
}

// carry carries one move out. It ends with the move, with leadership that does not come back, or with ctx; what it leaves then is the sweep's. The ledger
// itself sees that claims are being deleted: until it does, their places are theirs.
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
		if !ok && e.regains(ctx) {
			m.forgets()
			continue
		}
		if !ok {
			logger.Info("A move ends with leadership")
			return
		}
		over, wait, err := e.step(klog.NewContext(effects, logger), m)
		cancel()
		if err != nil && !errors.Is(context.Cause(effects), leadership.ErrLost) {
			logger.V(2).Info("A step of a move failed, will try again", "err", err)
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

// regains waits for leadership, and says whether it has come back.
func (e *Executor) regains(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, regainWithin)
	defer cancel()
	_, done, err := e.config.Guard.Wait(ctx)
	if err != nil {
		return false
	}
	done()
	return true
}

// forgets what the scheduler has said: it may be another one now.
func (m *moving) forgets() {
	clear(m.idle)
	clear(m.busy)
	m.asked, m.confirmed, m.covered = time.Time{}, time.Time{}, nil
}

// step looks at the move once and does what is next; over says that the move is, wait when to look again.
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
	case AskBusy:
		err = e.askBusy(ctx, m)
	case AskRoom:
		err = e.askRoom(ctx, m, seen)
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

// cordon keeps new pods off all nodes and says why on their claims. What the scheduler said before counts no more.
func (e *Executor) cordon(ctx context.Context, m *moving, seen *sight) error {
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
	m.halfway = false
	return nil
}

// condition writes the condition DisruptionReason of a claim that is not leaving, or takes it away where the reason is empty.
func (e *Executor) condition(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	err := leadership.RetryOnConflict(func() error {
		current := &karpv1.NodeClaim{}
		if err := e.config.Reader.Get(ctx, client.ObjectKeyFromObject(claim), current); err != nil {
			return client.IgnoreNotFound(err)
		}
		if current.UID != claim.UID || current.DeletionTimestamp != nil {
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
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return client.IgnoreNotFound(e.config.Client.Status().Patch(ctx, current, patch))
	})
	if err != nil {
		return fmt.Errorf("write condition %s of NodeClaim %s: %w", karpv1.ConditionTypeDisruptionReason, claim.Name, err)
	}
	return nil
}

// askBusy asks about the nodes that are not known to be idle. No answer is asked for again.
func (e *Executor) askBusy(ctx context.Context, m *moving) error {
	for _, name := range m.nodes {
		if m.idle[name] {
			continue
		}
		m.wait()
		askCtx, cancel := context.WithTimeout(ctx, busyTimeout)
		busy, reason, err := e.config.Asker.Busy(askCtx, name)
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

// wait notes that a question is asked, unless one is waiting for its answer.
func (m *moving) wait() {
	if m.asked.IsZero() {
		m.asked = time.Now()
	}
}

func (m *moving) answered() { m.asked = time.Time{} }

// askRoom asks for room for all pods that move: those that have it keep it.
func (e *Executor) askRoom(ctx context.Context, m *moving, seen *sight) error {
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

// remove deletes the claims, one after the other: from here on it is terminate's.
func (e *Executor) remove(ctx context.Context, m *moving, seen *sight) error {
	if !m.deleting {
		decision := m.decision()
		e.event(m, seen, "DisruptionTerminating", "Disrupting Node: "+string(m.Reason))
		for _, c := range m.Claims {
			e.config.Metrics.Decided(c.Labels[karpv1.NodePoolLabelKey], decision, m.why(), m.Type)
		}
		klog.FromContext(ctx).Info("A move's pods have their room, its nodes go", "decision", decision, "replacements", m.replacements)
	}
	m.deleting = true
	var errs []error
	for _, c := range m.Claims {
		errs = append(errs, e.config.Ender.Begin(ctx, c, m.why()))
	}
	return errors.Join(errs...)
}

// decision is Karpenter's word for what is done.
func (m *moving) decision() string {
	if len(m.replacements) > 0 {
		return "replace"
	}
	return "delete"
}

// callOff takes back what the move did. The scheduler gives the room up that it keeps when the cordons are gone.
func (e *Executor) callOff(ctx context.Context, m *moving, seen *sight, why string) error {
	klog.FromContext(ctx).Info("A move is called off", "why", why, "replacements", m.replacements)
	if len(m.replacements) > 0 {
		e.config.Metrics.QueueFailed(m.decision(), m.why(), m.Type)
	} else {
		e.config.Metrics.ValidationFailed(m.Type)
	}
	e.rests(m.Claims)
	m.said = nil
	e.event(m, seen, "DisruptionBlocked", "Disruption called off: "+why)
	if m.Type != "" {
		e.event(m, seen, "ConsolidationRejected", fmt.Sprintf("Consolidation rejected: %s, reason: %s", m.Message, why))
	}
	return e.release(ctx, m.Claims)
}

// release takes the cordons of moves back, and what the claims say about it.
func (e *Executor) release(ctx context.Context, claims []*karpv1.NodeClaim) error {
	var errs []error
	for _, c := range claims {
		errs = append(errs, e.config.Ender.Uncordon(ctx, c.Status.NodeName, CordonedBy), e.condition(ctx, c, ""))
	}
	return errors.Join(errs...)
}

// event says something once about every claim and node of the move.
func (e *Executor) event(m *moving, seen *sight, reason, message string) {
	if m.said[reason] {
		return
	}
	if m.said == nil {
		m.said = map[string]bool{}
	}
	m.said[reason] = true
	message = strings.TrimSpace(message)
	for _, c := range m.Claims {
		e.config.Events.Eventf(c, corev1.EventTypeNormal, reason, "%s", message)
	}
	for _, n := range seen.nodes {
		e.config.Events.Eventf(n, corev1.EventTypeNormal, reason, "%s", message)
	}
}
