package terminate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
)

// ReconcileClaim executes the termination of one NodeClaim as far as possible now.
func (t *Terminator) ReconcileClaim(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(t.config.Guard, t.reconcileClaim)(ctx, req)
}

func (t *Terminator) reconcileClaim(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := t.config.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		if client.IgnoreNotFound(err) == nil {
			t.ends.forgetOwner(owner{claim: req.Name})
			t.released.forget(req.Name)
			t.ahead.forget(req.Name)
			t.progress.forget(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp == nil || !guarded(claim) && (!launched(claim) || t.released.has(claim)) {
		return reconcile.Result{}, nil
	}
	if !t.config.Ours(claim) {
		return reconcile.Result{RequeueAfter: foreignPeriod}, nil // Its Karpenter terminates it, or stops and leaves it to the launcher.
	}
	nodes, err := t.nodesOf(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	s := &scope{claim: claim, stored: claim.DeepCopy(), nodes: nodes, now: time.Now()}
	wait, err := t.advance(ctx, s)
	if err := errors.Join(err, t.saveStatus(ctx, s)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// advance runs the steps in order, up to the first that must wait.
func (t *Terminator) advance(ctx context.Context, s *scope) (time.Duration, error) {
	// 1. The end of the grace period is recorded before anything depends on it.
	steps := []step{t.recordDeadline}
	if joined(s) {
		steps = append(
			steps,
			t.leaveNodes,  // 2. Cordon the Nodes, and keep them until the instance has terminated.
			t.checkAlive,  // 3. Skip the drain of a node that died.
			t.replace,     // 4. Plan and launch room for its pods.
			t.drain,       // 5. Evict pods in tiers, as their budgets allow.
			t.waitVolumes, // 6. Wait until volumes detach while the kubelet can still unmount them.
		)
	} else {
		// 2. to 6. For a node that never joined: its pods never ran, and their controllers need not wait for its end.
		steps = append(steps, t.evictUnstarted)
	}
	// 7. to 9. Terminate the instance, then the pods still bound to its node, then the objects.
	steps = append(steps, t.endInstance, t.failPods, t.release)
	for _, step := range steps {
		if wait, err := step(ctx, s); err != nil || wait > 0 {
			return wait, err
		}
	}
	return 0, nil
}

// joined reports whether a kubelet has posted a status for the claim's node, so that pods may run there.
func joined(s *scope) bool {
	if s.claim.StatusConditions().IsTrue(karpv1.ConditionTypeRegistered) && len(s.nodes) > 0 {
		return true
	}
	for _, node := range s.nodes {
		if conditions.Posted(node) != nil {
			return true
		}
	}
	return false
}

func (t *Terminator) recordDeadline(ctx context.Context, s *scope) (time.Duration, error) {
	deadline, err := disruption.Deadline(s.claim)
	if err != nil {
		return 0, reconcile.TerminalError(err)
	}
	if deadline.IsZero() && s.claim.Spec.TerminationGracePeriod != nil {
		deadline = s.claim.DeletionTimestamp.Add(s.claim.Spec.TerminationGracePeriod.Duration)
		annotation := deadline.Format(time.RFC3339)
		if err := t.patchClaim(ctx, s, func(c *karpv1.NodeClaim) {
			if c.Annotations == nil {
				c.Annotations = map[string]string{}
			}
			c.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] = annotation
		}); err != nil {
			return 0, err
		}
		t.progress.event(s, corev1.EventTypeWarning, "TerminationGracePeriodExpiring", "All pods will be deleted by %s", annotation)
	}
	s.deadline = deadline
	return 0, nil
}

func (t *Terminator) leaveNodes(ctx context.Context, s *scope) (time.Duration, error) {
	for _, node := range s.nodes {
		if !leaves(node.DeepCopy(), s.claim) {
			if err := t.patchNode(ctx, node.Name, func(n *corev1.Node) { leave(n, s.claim) }); err != nil {
				return 0, err
			}
		}
		if node.DeletionTimestamp != nil {
			continue
		}
		err := t.config.Client.Delete(ctx, node, client.Preconditions{UID: &node.UID})
		if client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("deleting Node %s: %w", node.Name, err)
		}
	}
	return 0, nil
}

func (t *Terminator) checkAlive(_ context.Context, s *scope) (time.Duration, error) {
	id := instanceID(s.claim)
	if id == "" {
		return 0, nil
	}
	// If EC2 takes the instance away, its state is checked while its node is still Ready: the API server would notice 40 s later.
	for _, node := range s.nodes {
		if c := conditions.Ready(node); c != nil && c.Status == corev1.ConditionTrue && !instanceEnds(reasonOf(s.claim)) {
			return 0, nil
		}
	}
	s.died = t.ends.watch(id, owner{claim: s.claim.Name}, s.claim)
	return 0, nil
}

// endInstance terminates the claim's instance and waits until EC2 shows it terminated.
func (t *Terminator) endInstance(ctx context.Context, s *scope) (time.Duration, error) {
	id := instanceID(s.claim)
	if id == "" {
		return 0, t.endUnrecorded(ctx, s)
	}
	if !t.ends.end(id, owner{claim: s.claim.Name}, s.claim) {
		t.progress.terminating(s, id, t.ends.ending(id), t.ends.failed(id))
		return instancePeriod, nil
	}
	if took, ok := t.ends.took(id); ok {
		t.metrics.instanceDuration.WithLabelValues(pool(s.claim)).Observe(took.Seconds())
	}
	return 0, nil
}

// endUnrecorded terminates instances that were assigned to the claim before their ID was recorded. An instance that EC2 shows later has no
// claim, and is collected as a leak, and so is one in a zone that a zonal shift is away from, after the shift.
func (t *Terminator) endUnrecorded(ctx context.Context, s *scope) error {
	launch := s.claim.Annotations[catalog.LaunchAnnotation]
	if launch == "" {
		return nil
	}
	shifted, _ := t.config.Cloud.ShiftedZones()
	instances, err := t.config.Cloud.Instances(ctx, cloud.Selector{LaunchIDs: []string{launch}})
	if err != nil {
		return fmt.Errorf("finding instances of launch %s for NodeClaim %s: %w", launch, s.claim.Name, err)
	}
	var ids []string
	for _, i := range instances {
		if i.Tags[claimTag] == s.claim.Name && !shifted[i.ZoneID] {
			ids = append(ids, i.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := t.config.Cloud.Terminate(ctx, ids); err != nil {
		return fmt.Errorf("terminating %v of NodeClaim %s: %w", ids, s.claim.Name, err)
	}
	return nil
}

// release removes the finalizers from the Nodes, waits until the Nodes are gone, and removes the finalizer from the claim.
func (t *Terminator) release(ctx context.Context, s *scope) (time.Duration, error) {
	for _, node := range s.nodes {
		if err := t.releaseNode(ctx, node); err != nil {
			return 0, err
		}
	}
	if kept, by := keptNode(s.nodes); kept != nil {
		// The condition takes the node out of the budgets: its instance has terminated.
		s.claim.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
		if finalizer.Guarded(kept) {
			t.progress.event(s, corev1.EventTypeNormal, "AwaitingNodeDeletion", "Instance terminated, Node %s is kept by finalizers %v", kept.Name, by)
		}
		return nodePeriod, nil
	}
	if err := t.saveStatus(ctx, s); err != nil {
		return 0, err
	}
	if guarded(s.stored) {
		if err := t.patchClaim(ctx, s, func(c *karpv1.NodeClaim) {
			finalizer.Release(c)
		}); err != nil {
			return 0, err
		}
	}
	s.released = true
	t.released.add(s.claim)
	t.ends.forgetOwner(owner{claim: s.claim.Name})
	t.ahead.forget(s.claim.Name)
	klog.FromContext(ctx).Info("deleted nodeclaim", "nodeClaim", klog.KObj(s.claim), "instanceID", instanceID(s.claim))
	t.metrics.claims.WithLabelValues(pool(s.claim), s.claim.Labels[karpv1.CapacityTypeLabelKey], s.claim.Labels[corev1.LabelTopologyZone]).Inc()
	t.metrics.claimDuration.WithLabelValues(pool(s.claim)).Observe(s.now.Sub(s.claim.DeletionTimestamp.Time).Seconds())
	return 0, nil
}

// patchClaim changes metadata of the claim, without its status.
func (t *Terminator) patchClaim(ctx context.Context, s *scope, change func(*karpv1.NodeClaim)) error {
	next := s.stored.DeepCopy()
	change(next)
	err := t.config.Client.Patch(ctx, next, nodeobj.ClaimMetadata(s.stored))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change NodeClaim %s: %w", s.claim.Name, err)
	}
	kept := s.claim.Status.Conditions
	s.stored, s.claim = next, next.DeepCopy()
	s.claim.Status.Conditions = kept
	return nil
}

func (t *Terminator) saveStatus(ctx context.Context, s *scope) error {
	if s.released || equality.Semantic.DeepEqual(s.stored.Status, s.claim.Status) {
		return nil
	}
	next := s.claim.DeepCopy()
	err := t.config.Client.Status().Patch(ctx, next, nodeobj.ClaimStatus(s.stored))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing status of NodeClaim %s: %w", s.claim.Name, err)
	}
	s.stored, s.claim = next, next.DeepCopy()
	return nil
}
