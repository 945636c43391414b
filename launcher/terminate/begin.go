package terminate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
)

// Begin starts the termination of a NodeClaim: its condition DisruptionReason records the reason, it is deleted, and its Nodes are cordoned. The
// reconciler does the rest. The deletion comes before the cordon, as it is what another process goes on from: if this one dies, or an error comes,
// before the deletion, the Nodes still take pods. For a claim that is being deleted Begin records a reason that overtakes the one that it has
// (Overtakes), and does nothing else. It does nothing for a claim that is deleted, or was created again under the same name. Reasons are Karpenter's
// label values, such as empty or spot_interrupted. ctx is an effect's.
func (t *Terminator) Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	return t.BeginNoticed(ctx, claim, reason, time.Time{})
}

// BeginNoticed is Begin for a reason of which EC2 gave notice at a time: that is the time of the condition DisruptionReason. A time that is zero or in the
// future counts as now.
func (t *Terminator) BeginNoticed(ctx context.Context, claim *karpv1.NodeClaim, reason string, at time.Time) error {
	begun, err := t.record(ctx, claim, reason, at)
	if err != nil || begun == nil {
		return err
	}
	if err := t.config.deleteClaim(ctx, begun); err != nil {
		return err
	}
	log := klog.FromContext(ctx)
	nodes, err := t.nodesOf(ctx, begun)
	for _, node := range nodes {
		err = errors.Join(err, t.Cordon(ctx, node.Name, reason))
	}
	if err != nil {
		log.Error(err, "Cordoning the Nodes of a NodeClaim that terminates failed, its reconciler cordons them", "nodeClaim", klog.KObj(claim))
	}
	log.V(2).Info("Began to end NodeClaim", "nodeClaim", klog.KObj(claim), "reason", reason)
	t.metrics.disrupted.WithLabelValues(reason, claim.Labels[karpv1.NodePoolLabelKey], claim.Labels[karpv1.CapacityTypeLabelKey]).Inc()
	return nil
}

// Overtakes reports whether a reason replaces that of a termination which has begun: EC2 takes the instance of a node that drains for another
// reason, so that its pods no longer wait for what that one lets them wait for.
func Overtakes(claim *karpv1.NodeClaim, reason string) bool {
	return instanceEnds(reason) && !Interrupted(claim) && !claim.StatusConditions().IsTrue(karpv1.ConditionTypeInstanceTerminating)
}

// Interrupted reports whether the reason of a claim is that EC2 takes its instance. Another reason does not replace it, also before the claim is deleted:
// its pods would wait for what EC2 does not wait for.
func Interrupted(claim *karpv1.NodeClaim) bool { return instanceEnds(reasonOf(claim)) }

// BeginNow starts the termination of a NodeClaim without waiting for pods, or has one that has begun wait no longer: its termination grace
// period ends now, so that its pods get one second, whatever budgets and do-not-disrupt say. It is for instances that do not work. The deletion
// comes first: an end that was written before it would end a later termination at once, if this process died in between. ctx is an effect's.
func (t *Terminator) BeginNow(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	if err := t.Begin(ctx, claim, reason); err != nil {
		return err
	}
	err := leadership.RetryOnConflict(func() error {
		current := &karpv1.NodeClaim{}
		if err := t.config.Reader.Get(ctx, client.ObjectKeyFromObject(claim), current); err != nil {
			return err
		}
		if current.UID != claim.UID || disruption.GraceIsOver(current, time.Now()) {
			return nil
		}
		before := current.DeepCopy()
		metav1.SetMetaDataAnnotation(&current.ObjectMeta, karpv1.NodeClaimTerminationTimestampAnnotationKey, time.Now().UTC().Format(time.RFC3339))
		return t.config.Client.Patch(ctx, current, nodeobj.ClaimMetadata(before))
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("end the grace period of NodeClaim %s: %w", claim.Name, err)
	}
	return nil
}

// record writes the reason and its time into the claim's status and returns the updated claim; nil if there is no claim to delete.
func (t *Terminator) record(ctx context.Context, claim *karpv1.NodeClaim, reason string, at time.Time) (*karpv1.NodeClaim, error) {
	var out *karpv1.NodeClaim
	err := leadership.RetryOnConflict(func() error {
		out = nil
		current := &karpv1.NodeClaim{}
		if err := t.config.Reader.Get(ctx, client.ObjectKeyFromObject(claim), current); err != nil {
			return client.IgnoreNotFound(err)
		}
		before, begun := current.DeepCopy(), current.DeletionTimestamp != nil
		if current.UID != claim.UID || begun && !Overtakes(current, reason) {
			return nil
		}
		if !begun {
			out = current
		}
		if Interrupted(current) && !instanceEnds(reason) {
			return nil
		}
		if err := setReason(current, reason, at); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(before.Status, current.Status) {
			return nil
		}
		return t.config.Client.Status().Patch(ctx, current, nodeobj.ClaimStatus(before))
	})
	if err != nil {
		return nil, fmt.Errorf("record reason %s on NodeClaim %s: %w", reason, claim.Name, err)
	}
	return out, nil
}

// setReason sets the condition DisruptionReason. Its time is that of this reason, whatever reason the claim had before, and the earliest one that is known.
func setReason(claim *karpv1.NodeClaim, reason string, at time.Time) error {
	set := claim.StatusConditions()
	if was := set.Get(karpv1.ConditionTypeDisruptionReason); was.IsTrue() && was.Reason != reason {
		if err := set.Clear(karpv1.ConditionTypeDisruptionReason); err != nil {
			return err
		}
	}
	set.SetTrueWithReason(karpv1.ConditionTypeDisruptionReason, reason, reason)
	for i := range claim.Status.Conditions {
		c := &claim.Status.Conditions[i]
		if c.Type == karpv1.ConditionTypeDisruptionReason && !at.IsZero() && at.Before(c.LastTransitionTime.Time) {
			c.LastTransitionTime = metav1.NewTime(at)
		}
	}
	return nil
}

func (c *Config) deleteClaim(ctx context.Context, claim *karpv1.NodeClaim) error {
	if claim.DeletionTimestamp != nil {
		return nil
	}
	err := c.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("deleting NodeClaim %s: %w", claim.Name, err)
	}
	return nil
}

// nodesOf returns the Nodes of a claim: those with its providerID, and the one that it names unless that belongs to another instance.
func (t *Terminator) nodesOf(ctx context.Context, claim *karpv1.NodeClaim) ([]*corev1.Node, error) {
	var out []*corev1.Node
	seen := map[types.UID]bool{}
	if id := claim.Status.ProviderID; id != "" {
		list := &corev1.NodeList{}
		if err := t.config.Client.List(ctx, list, client.MatchingFields{index.NodeProviderID: id}); err != nil {
			return nil, fmt.Errorf("listing Nodes of NodeClaim %s: %w", claim.Name, err)
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
			seen[list.Items[i].UID] = true
		}
	}
	if name := claim.Status.NodeName; name != "" {
		node := &corev1.Node{}
		err := t.config.Client.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("getting Node %s of NodeClaim %s: %w", name, claim.Name, err)
		}
		own := node.Spec.ProviderID == "" || node.Spec.ProviderID == claim.Status.ProviderID
		if err == nil && own && !seen[node.UID] {
			out = append(out, node)
		}
	}
	return out, nil
}

func same(a, b client.Object) bool { return equality.Semantic.DeepEqual(a, b) }
