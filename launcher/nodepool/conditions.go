package nodepool

import (
	"context"
	"fmt"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/scalein"
)

// ConditionNodeCost is False on a NodePool whose annotation catalog.NodeCostAnnotation or catalog.BurstUseAnnotation cannot be read, and absent
// otherwise. The NodePool is still used, with the default of that annotation.
const ConditionNodeCost = "slipway.dev/NodeCost"

// ConditionOnDemandShare is False on a NodePool whose annotation catalog.OnDemandShareAnnotation cannot be read, and absent otherwise. The
// NodePool is still used, as if it had none.
const ConditionOnDemandShare = "slipway.dev/OnDemandShare"

// ConditionPodDeletionCost is False on a NodePool whose annotation catalog.DeletionCostAnnotation cannot be read, and absent otherwise. The NodePool is still
// used, as if it had none.
const ConditionPodDeletionCost = "slipway.dev/PodDeletionCost"

// ConditionDisruptionPaused is True on a NodePool whose nodes are not disrupted because of catalog.PausedAnnotation, and absent otherwise.
const ConditionDisruptionPaused = "slipway.dev/DisruptionPaused"

// ConditionWindow is True on a NodePool while one of the windows of its annotation window.Annotation is open, False where that cannot be read, which
// then changes nothing, and absent otherwise.
const ConditionWindow = "slipway.dev/Window"

// reasonInvalid is the reason of ValidationSucceeded for a NodePool whose fields are not valid (Karpenter).
const reasonInvalid = "NodePoolValidationFailed"

// Facts are what a NodePool's conditions depend on beside the pool itself.
type Facts struct {
	// Class is the pool's EC2NodeClass; nil if it does not exist.
	Class *awsv1.EC2NodeClass
	// Claims are the pool's NodeClaims. They may be the cache's: they are not changed.
	Claims []*karpv1.NodeClaim
	// TypesKnown reports whether Types are known.
	TypesKnown bool
	// Types are the instance types of the class.
	Types []catalog.InstanceType
	// Limits are those that hold now. What is used of them is the pool's status.resources.
	Limits corev1.ResourceList
	// Fixed allows spec.replicas.
	Fixed bool
	// Now decides which windows are open.
	Now time.Time
}

// SetConditions derives a pool's conditions from the pool and the facts.
func SetConditions(ctx context.Context, pool *karpv1.NodePool, facts Facts) {
	set := pool.StatusConditions()
	setValidationSucceeded(ctx, pool, facts)
	setNodeClassReady(pool, facts.Class)
	setRegistrationHealthy(pool, facts.Class, facts.Claims)
	_, err := catalog.DeclaredCost(pool.Annotations)
	setReadable(pool, ConditionNodeCost, "InvalidNodeCost", err)
	_, err = catalog.OnDemandShare(pool.Annotations)
	setReadable(pool, ConditionOnDemandShare, "InvalidOnDemandShare", err)
	_, err = scalein.Off(pool.Annotations)
	setReadable(pool, ConditionPodDeletionCost, "InvalidPodDeletionCost", err)
	setWindow(pool, facts.Now)
	setLimitReached(pool, facts)
	if disruption.Paused(pool) {
		set.SetTrueWithReason(ConditionDisruptionPaused, "Annotation", "no node is consolidated, reclaimed while empty or replaced because it drifted while the annotation "+catalog.PausedAnnotation+" is true")
	} else {
		_ = set.Clear(ConditionDisruptionPaused)
	}
	_ = set.Clear(conditionNotYet) // Clear fails only for conditions that Ready depends on.
}

// setWindow says which window is open: a change of the condition has the limits sent to the scheduler again.
func setWindow(pool *karpv1.NodePool, now time.Time) {
	set := pool.StatusConditions()
	windows, err := window.Read(pool.Annotations)
	open := windows.Open(now)
	switch {
	case err != nil && open != nil:
		set.SetFalse(ConditionWindow, "InvalidWindows", err.Error()+". Of the others one is "+open.String())
	case err != nil:
		set.SetFalse(ConditionWindow, "InvalidWindows", err.Error())
	case open == nil:
		_ = set.Clear(ConditionWindow) // Clear fails only for conditions that Ready depends on.
	default:
		set.SetTrueWithReason(ConditionWindow, "Open", open.String())
	}
}

// setLimitReached says which limit leaves no room for another node. Without the instance types it is left as it is.
func setLimitReached(pool *karpv1.NodePool, facts Facts) {
	set := pool.StatusConditions()
	if !facts.TypesKnown && len(facts.Limits) > 0 {
		return
	}
	if text := limitReached(pool, pool.Status.Resources, facts.Limits, facts.Types); text != "" {
		set.SetTrueWithReason(ConditionLimitReached, ReasonLimitReached, text)
		return
	}
	_ = set.Clear(ConditionLimitReached) // Clear fails only for conditions that Ready depends on.
}

func setValidationSucceeded(ctx context.Context, pool *karpv1.NodePool, facts Facts) {
	set := pool.StatusConditions()
	errs, incompatible := Validate(ctx, pool, facts.Fixed), ""
	if len(errs) == 0 && facts.TypesKnown {
		incompatible = Incompatible(pool, facts.Types)
	}
	was := set.Get(karpv1.ConditionTypeValidationSucceeded)
	switch {
	case incompatible != "":
		set.SetFalse(karpv1.ConditionTypeValidationSucceeded, ReasonNoCompatibleInstanceTypes, incompatible)
	case len(errs) == 0 && !facts.TypesKnown && was.IsFalse() && was.Reason == ReasonNoCompatibleInstanceTypes && was.ObservedGeneration == pool.Generation:
		// Nothing newer is known about the instance types.
	case len(errs) == 0:
		set.SetTrue(karpv1.ConditionTypeValidationSucceeded)
	case was.IsFalse() && was.Reason == reasonInvalid && was.ObservedGeneration == pool.Generation:
		// Karpenter's messages list sets in random order: the message for one generation is written once.
	default:
		set.SetFalse(karpv1.ConditionTypeValidationSucceeded, reasonInvalid, errs.ToAggregate().Error())
	}
}

// setReadable sets a condition about annotations to False with the error, and removes it without one. It leaves a condition that is still
// true as it is: a new one would be a new transition, and each write of it cause another one.
func setReadable(pool *karpv1.NodePool, condition, reason string, err error) {
	set := pool.StatusConditions()
	if err != nil {
		set.SetFalse(condition, reason, err.Error())
		return
	}
	_ = set.Clear(condition) // Clear fails only for conditions that Ready depends on.
}

func setNodeClassReady(pool *karpv1.NodePool, class *awsv1.EC2NodeClass) {
	set := pool.StatusConditions()
	if class == nil {
		name := ""
		if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil {
			name = ref.Name
		}
		set.SetFalse(karpv1.ConditionTypeNodeClassReady, "NodeClassNotFound",
			fmt.Sprintf("spec.template.spec.nodeClassRef.name: EC2NodeClass %q not found on cluster", name))
		return
	}
	ready := class.StatusConditions().Get("Ready")
	switch {
	case class.DeletionTimestamp != nil:
		set.SetFalse(karpv1.ConditionTypeNodeClassReady, "NodeClassTerminating", "NodeClass is Terminating")
	case ready.IsUnknown():
		set.SetFalse(karpv1.ConditionTypeNodeClassReady, "NodeClassReadinessUnknown", "Node Class Readiness Unknown")
	case ready.IsFalse():
		set.SetFalse(karpv1.ConditionTypeNodeClassReady, ready.Reason, explain(class))
	default:
		set.SetTrue(karpv1.ConditionTypeNodeClassReady)
	}
}

// explain returns why a class is not ready: its Ready condition only names the other condition that is False.
func explain(class *awsv1.EC2NodeClass) string {
	var out []string
	for _, c := range class.StatusConditions().List() {
		if c.Type != "Ready" && c.Status == "False" {
			out = append(out, fmt.Sprintf("EC2NodeClass %s: %s", class.Name, c.Message))
		}
	}
	return sentence(out)
}

// setRegistrationHealthy sets True once a node of the pool in its current form has joined. A changed class, or a changed pool whose nodes
// did not join, starts again as Unknown. False, and True after it, are set by package health. Ready does not depend on it. The claims may be
// the cache's: they are not changed.
func setRegistrationHealthy(pool *karpv1.NodePool, class *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) {
	set := pool.StatusConditions()
	was := set.Get(karpv1.ConditionTypeNodeRegistrationHealthy)
	another := was.IsFalse() && was.ObservedGeneration != pool.Generation ||
		class != nil && class.Generation != pool.Status.NodeClassObservedGeneration
	if was == nil || another {
		set.SetUnknown(karpv1.ConditionTypeNodeRegistrationHealthy)
		if class != nil {
			pool.Status.NodeClassObservedGeneration = class.Generation
		}
	}
	if set.Get(karpv1.ConditionTypeNodeRegistrationHealthy).IsFalse() {
		return
	}
	hash := pool.Hash()
	for _, claim := range claims {
		current := claim.Annotations[karpv1.NodePoolHashAnnotationKey] == hash
		if class != nil {
			current = current && claim.Annotations[awsv1.AnnotationEC2NodeClassHash] == class.Annotations[awsv1.AnnotationEC2NodeClassHash]
		}
		if current && conditions.ClaimIs(claim, karpv1.ConditionTypeRegistered) {
			set.SetTrue(karpv1.ConditionTypeNodeRegistrationHealthy)
			return
		}
	}
}
