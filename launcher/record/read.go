package record

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Pods returns the pods promised to a NodeClaim, without their names, which package index finds; none if the annotation is missing. It
// returns an error that names the claim if the annotation is not such a list.
func Pods(claim *karpv1.NodeClaim) ([]catalog.PodRef, error) {
	out, err := catalog.ParsePods(claim.Annotations[catalog.PodsAnnotation])
	if err != nil {
		return nil, fmt.Errorf("NodeClaim %s: annotation %s: %w", claim.Name, catalog.PodsAnnotation, err)
	}
	return out, nil
}

// AddPods returns the annotation's value with more promised pods; pods that it has already are not added again. If it would have more than
// catalog.MaxPromised, the pods for whose UIDs gone returns true are removed first: the pods of a tenant who deletes and creates pods while
// a node boots add up. It returns an InvalidError if there are still too many.
func AddPods(claim *karpv1.NodeClaim, more []*api.PodRef, gone func(uid string) bool) (string, error) {
	have, err := Pods(claim)
	if err != nil {
		return "", err
	}
	for _, p := range podsOf(more) {
		if !slices.ContainsFunc(have, func(h catalog.PodRef) bool { return h.UID == p.UID }) {
			have = append(have, p)
		}
	}
	if len(have) > catalog.MaxPromised {
		have = slices.DeleteFunc(have, func(p catalog.PodRef) bool { return gone(p.UID) })
	}
	if len(have) > catalog.MaxPromised {
		return "", tooManyPods(claim.Name, len(have))
	}
	return catalog.FormatPods(have), nil
}

// RemovePods returns the annotation's value without the pods for whose UIDs gone returns true.
func RemovePods(claim *karpv1.NodeClaim, gone func(uid string) bool) (string, error) {
	have, err := Pods(claim)
	if err != nil {
		return "", err
	}
	return catalog.FormatPods(slices.DeleteFunc(have, func(p catalog.PodRef) bool { return gone(p.UID) })), nil
}

func tooManyPods(claim string, n int) error {
	return &InvalidError{
		Claim: claim, Field: "pods", Reason: "TooManyPods", Message: fmt.Sprintf("at most %d pods can be promised to one node, got %d", catalog.MaxPromised, n),
	}
}

func podsOf(refs []*api.PodRef) []catalog.PodRef {
	out := make([]catalog.PodRef, 0, len(refs))
	for _, p := range refs {
		out = append(out, catalog.PodRef{
			Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUid(), SchedulerOnly: p.GetSchedulerOnly(), Adopted: p.GetAdopted(),
		})
	}
	return out
}

// InstanceTypes returns the names that a claim may be launched as, cheapest first; nil for a claim that slipway did not create.
func InstanceTypes(claim *karpv1.NodeClaim) []string {
	text := claim.Annotations[catalog.InstanceTypesAnnotation]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Requirements returns the claim's own as catalog requirements.
func Requirements(claim *karpv1.NodeClaim) (catalog.Requirements, error) {
	reqs, err := requirementsOf(claim.Spec.Requirements)
	if err != nil {
		return nil, fmt.Errorf("NodeClaim %s: %w", claim.Name, err)
	}
	return reqs, nil
}

// PoolRequirements returns the spec.requirements of a NodePool's template as catalog requirements: what drift compares, as in Karpenter. Those of new nodes are
// template.Requirements.
func PoolRequirements(pool *karpv1.NodePool) (catalog.Requirements, error) {
	reqs, err := requirementsOf(pool.Spec.Template.Spec.Requirements)
	if err != nil {
		return nil, fmt.Errorf("NodePool %s: %w", pool.Name, err)
	}
	return reqs, nil
}

func requirementsOf(from []karpv1.NodeSelectorRequirementWithMinValues) (catalog.Requirements, error) {
	list := make([]catalog.Requirement, 0, len(from))
	for _, r := range from {
		list = append(list, catalog.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	return catalog.NewRequirements(list)
}

// Taints returns all taints that the claim's Node starts with: the NodePool's, its startup taints and slipway's own.
func Taints(claim *karpv1.NodeClaim) []corev1.Taint {
	out := slices.Concat(claim.Spec.Taints, claim.Spec.StartupTaints)
	return append(out, corev1.Taint{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule})
}

// LaunchTimeout is how long a claim may wait for its instance, as in Karpenter.
const LaunchTimeout = 5 * time.Minute

// asleepFor is longer than an instance sleeps.
const asleepFor = 100 * 365 * 24 * time.Hour

// Deadline returns when a claim's node must be Ready: patience after its launch, or before the launch, the latest possible time. An instance of a
// standby buffer has time again from when it is woken, and none while it sleeps.
func Deadline(claim *karpv1.NodeClaim, patience Patience) time.Time {
	if StandbyOf(claim).Off() {
		return claim.CreationTimestamp.Add(asleepFor)
	}
	if started := StartedAt(claim); !started.IsZero() {
		return started.Add(patience.Of(claim))
	}
	return claim.CreationTimestamp.Add(LaunchTimeout + patience.Of(claim))
}
