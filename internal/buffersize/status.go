package buffersize

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/slipway-k8s/slipway/internal/clip"
)

// The reasons of the condition ReadyForProvisioning, as in Karpenter.
const (
	// Resolved means that the template was found.
	Resolved = "Resolved"
	// ScalableRefNotFound means that the workload does not exist.
	ScalableRefNotFound = "ScalableRefNotFound"
	// PodTemplateNotFound means that the PodTemplate does not exist.
	PodTemplateNotFound = "PodTemplateNotFound"
	// ResolutionFailed means that the spec, or what it refers to, is not one that room can be kept for.
	ResolutionFailed = "ResolutionFailed"
)

// The reasons of the condition Provisioning, as in Karpenter.
const (
	// FitsExistingCapacity means that all pods fit on initialized nodes.
	FitsExistingCapacity = "FitsExistingCapacity"
	// RequiresNewCapacity means that some pods have room on nodes in flight alone, or none.
	RequiresNewCapacity = "RequiresNewCapacity"
	// NotReadyForProvisioning means that the buffer has no template.
	NotReadyForProvisioning = "NotReadyForProvisioning"
	// BufferEmpty means that the buffer asks for no pods.
	BufferEmpty = "BufferEmpty"
)

// MaximumReached is the reason of the condition LimitedByQuotas.
const MaximumReached = "MaximumReached"

// Failure is why a buffer has no template.
type Failure struct {
	// Reason of the condition ReadyForProvisioning.
	Reason string
	// Message for a human.
	Message string
}

// Resolution is what became of a buffer's references.
type Resolution struct {
	// Failure is set where there is no template.
	Failure *Failure
	// PodTemplate is the name of the PodTemplate and Generation its generation; empty for a scalableRef.
	PodTemplate string
	// Generation is described at PodTemplate.
	Generation int64
	// Replicas is how many pods the buffer is given.
	Replicas int32
	// Limited is why it is given fewer than it asks for; empty where it is not. Beside a Failure it says that this is a limit.
	Limited string
	// Note is what is wrong with a part that is left out; empty for nothing.
	Note string
}

// Places is where the pods of a buffer have room.
type Places struct {
	// Existing have room on initialized nodes, InFlight on nodes that are launched.
	Existing, InFlight int
	// NoRoom is why others have none; empty where all have.
	NoRoom string
	// Reason is the planner's reason for that in one word; empty where the planner gave none.
	Reason string
}

// SetResolution writes the resolution into the status. Where it failed, the figures of the last template stay.
func SetResolution(cb *autoscalingv1beta1.CapacityBuffer, r Resolution) {
	s := &cb.Status
	s.ProvisioningStrategy = cb.Spec.ProvisioningStrategy
	if r.Failure != nil {
		cb.SetCondition(autoscalingv1beta1.ReadyForProvisioningCondition, metav1.ConditionFalse, r.Failure.Reason, r.Failure.Message)
		if r.Limited != "" {
			cb.SetCondition(autoscalingv1beta1.LimitedByQuotasCondition, metav1.ConditionTrue, MaximumReached, r.Limited)
		}
		return
	}
	s.PodTemplateRef, s.PodTemplateGeneration = nil, nil
	if r.PodTemplate != "" {
		s.PodTemplateRef, s.PodTemplateGeneration = &autoscalingv1beta1.LocalObjectRef{Name: r.PodTemplate}, &r.Generation
	}
	s.Replicas = &r.Replicas
	message := "Pod template resolved successfully"
	if r.Note != "" {
		message += ". Left out: " + r.Note
	}
	cb.SetCondition(autoscalingv1beta1.ReadyForProvisioningCondition, metav1.ConditionTrue, Resolved, message)
	if r.Limited == "" {
		meta.RemoveStatusCondition(&s.Conditions, autoscalingv1beta1.LimitedByQuotasCondition)
		return
	}
	cb.SetCondition(autoscalingv1beta1.LimitedByQuotasCondition, metav1.ConditionTrue, MaximumReached, r.Limited)
}

// SetPlaces writes where the pods have room into the status. Nil places are not known: what was written last stays.
func SetPlaces(cb *autoscalingv1beta1.CapacityBuffer, r Resolution, p *Places) {
	set := func(status metav1.ConditionStatus, reason, message string) {
		cb.SetCondition(autoscalingv1beta1.ProvisioningCondition, status, reason, message)
	}
	switch replicas := int(r.Replicas); {
	case r.Failure != nil:
		set(metav1.ConditionFalse, NotReadyForProvisioning, "Buffer is not ReadyForProvisioning")
	case replicas == 0:
		set(metav1.ConditionFalse, BufferEmpty, empty(r))
	case p == nil:
	case p.Existing >= replicas:
		set(metav1.ConditionTrue, FitsExistingCapacity, fmt.Sprintf("All %d virtual pods fit on existing capacity", replicas))
	default:
		message := fmt.Sprintf("%d/%d virtual pods required new capacity, %d failed", p.InFlight, replicas, max(replicas-p.Existing-p.InFlight, 0))
		if p.NoRoom != "" {
			message += ": " + clip.Text(p.NoRoom, mostMessage)
		}
		set(metav1.ConditionFalse, RequiresNewCapacity, message)
	}
}

// empty says why a buffer has no pods.
func empty(r Resolution) string {
	if r.Limited != "" {
		return r.Limited
	}
	return "Buffer has zero desired replicas"
}

// mostMessage is the length of a reason in a condition; the API server takes 32 KiB.
const mostMessage = 1024
