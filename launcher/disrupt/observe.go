package disrupt

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// observation is what one step of a move observes.
type observation struct {
	// reader and bound have the objects.
	reader client.Reader
	bound  index.Pods
	facts  Facts
	// nodes are the Nodes that exist, and pods those that have to move. They may be the cache's, and must not be changed.
	nodes []*corev1.Node
	pods  []*corev1.Pod
}

// look observes a move in the cache, as a hundred moves look at once. Whether a move ends, and how, follows from what the API server has: a pod that was
// bound a moment ago has no reservation yet. So does whether its nodes are to be cordoned again: the cache may not show the first cordon yet.
func (e *Executor) look(ctx context.Context, m *moving) (*observation, error) {
	seen, err := e.observe(ctx, m, e.config.Client, e.config.Pods)
	if err != nil {
		return nil, err
	}
	switch step, _ := Next(seen.facts); {
	case step == Await, step == AskBusy, step == AskRoom, step == Cordon && !m.cordoned:
		return seen, nil
	}
	return e.observe(ctx, m, e.config.Reader, index.ListPods(e.config.Reader))
}

// observe reads the state of a move.
func (e *Executor) observe(ctx context.Context, m *moving, reader client.Reader, bound index.Pods) (*observation, error) {
	now := time.Now()
	s := &observation{reader: reader, bound: bound, facts: Facts{
		Running: now.Sub(m.started), Halfway: m.halfway, Deleting: m.deleting, Refused: m.refused,
		Room: !m.confirmed.IsZero(), Confirmed: now.Sub(m.confirmed),
	}}
	if !m.asked.IsZero() {
		s.facts.Silent = now.Sub(m.asked)
	}
	if !m.failing.IsZero() {
		s.facts.Failing, s.facts.Failure = now.Sub(m.failing), m.failure.Error()
	}
	for i := range m.Claims {
		node, err := e.observeNode(ctx, m, i, s)
		if err != nil {
			return nil, err
		}
		s.facts.Nodes = append(s.facts.Nodes, node)
	}
	if s.facts.protected() == "" {
		m.protected = time.Time{}
	} else if m.protected.IsZero() {
		m.protected = now
	}
	if !m.protected.IsZero() {
		s.facts.Protected = now.Sub(m.protected)
	}
	var err error
	s.facts.Replacements, err = replacements(ctx, m, reader)
	return s, err
}

// observeNode reads the state of one node.
func (e *Executor) observeNode(ctx context.Context, m *moving, i int, s *observation) (NodeFacts, error) {
	f := NodeFacts{Name: m.nodes[i], Idle: m.idle[m.nodes[i]], Busy: m.busy[m.nodes[i]]}
	claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
	err := errors.Join(
		client.IgnoreNotFound(s.reader.Get(ctx, client.ObjectKeyFromObject(m.Claims[i]), claim, client.UnsafeDisableDeepCopy)),
		client.IgnoreNotFound(s.reader.Get(ctx, client.ObjectKey{Name: f.Name}, node, client.UnsafeDisableDeepCopy)),
	)
	if err != nil {
		return f, fmt.Errorf("reading node %s: %w", f.Name, err)
	}
	if claim.UID != m.Claims[i].UID || claim.DeletionTimestamp != nil || node.Name == "" || node.DeletionTimestamp != nil {
		f.Terminating = true
		return f, nil
	}
	f.Foreign, f.Cordoned = !e.config.Ours(claim), terminate.Cordoned(node)
	s.nodes = append(s.nodes, node)
	on, err := s.bound.On(ctx, f.Name)
	if err != nil {
		return f, err
	}
	for _, pod := range on {
		if !disruption.NeedsRoom(pod) {
			continue
		}
		s.pods = append(s.pods, pod)
		if !m.covered[pod.UID] {
			f.Uncovered = pod.Namespace + "/" + pod.Name
		}
	}
	now := time.Now()
	if m.Quiet != nil {
		f.Arrived = disruption.Arrived(on, m.Quiet[i], now)
	}
	budgets, err := e.budgets.Of(ctx, e.config.Client, on...)
	if err != nil {
		return f, err
	}
	candidate := disruption.Candidate{Now: now, Node: node, Claim: claim, Pods: on, DisruptBare: e.config.DisruptBare}
	if v := disruption.BlockOf(candidate, budgets); !v.ByPods || !m.Eventual {
		f.Protected = v.Why
	}
	return f, nil
}

// replacements returns the state of the claims that were launched for the move.
func replacements(ctx context.Context, m *moving, reader client.Reader) ([]ReplacementFacts, error) {
	var out []ReplacementFacts
	for _, name := range m.replacements {
		claim := &karpv1.NodeClaim{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, claim, client.UnsafeDisableDeepCopy)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("getting NodeClaim %s: %w", name, err)
		}
		out = append(out, ReplacementFacts{
			Name: name, Failed: err != nil || claim.DeletionTimestamp != nil, Initialized: conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized),
			Slow: record.BootsSlowly(claim),
		})
	}
	return out, nil
}

// sweep removes cordons without a move: the process that ran the move has ended, or the Karpenter that disrupted the node. It also forgets what no move
// has read lately.
func (e *Executor) sweep(ctx context.Context) error {
	e.budgets.Look()
	nodes, err := e.config.Nodes.All(ctx)
	if err != nil {
		return err
	}
	alone := e.config.Alone()
	var errs []error
	for _, n := range nodes {
		by := n.Annotations[terminate.CordonedByAnnotation]
		if !terminate.Cordoned(n) || e.InMove(n.Name) || by != CordonedBy && (by != "" || !alone) {
			continue
		}
		errs = append(errs, e.uncordonOrphan(ctx, n.Name, by))
	}
	return errors.Join(errs...)
}

// uncordonOrphan removes the cordon of a node without a move, unless its claim is being deleted: then the move was complete. A cordon that names no
// owner is Karpenter's, and is removed where the claims are ours.
func (e *Executor) uncordonOrphan(ctx context.Context, node, by string) error {
	claims := &karpv1.NodeClaimList{}
	if err := e.config.Client.List(ctx, claims, client.MatchingFields{index.ClaimNodeName: node}); err != nil {
		return fmt.Errorf("listing NodeClaims of node %s: %w", node, err)
	}
	for i := range claims.Items {
		if claims.Items[i].DeletionTimestamp != nil {
			return nil // That is never taken back.
		}
		current := &karpv1.NodeClaim{}
		if err := e.config.Reader.Get(ctx, client.ObjectKeyFromObject(&claims.Items[i]), current); err != nil {
			return client.IgnoreNotFound(err)
		}
		if current.DeletionTimestamp != nil || by == "" && !e.config.Ours(current) {
			return nil
		}
		claims.Items[i] = *current
	}
	if e.InMove(node) {
		return nil
	}
	if len(claims.Items) == 0 {
		if by == "" {
			return nil // The node is not slipway's.
		}
		return e.config.Ender.Uncordon(ctx, node, by)
	}
	if by == "" {
		klog.FromContext(ctx).Info("Removing the taint that a Karpenter left on a node", "node", node)
	}
	list := make([]*karpv1.NodeClaim, 0, len(claims.Items))
	for i := range claims.Items {
		list = append(list, &claims.Items[i])
	}
	return e.release(ctx, list, by)
}
