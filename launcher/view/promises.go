package view

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Promises maps the UID of each promised pod to the name of its NodeClaim, those that have their node included.
func Promises(claims []*karpv1.NodeClaim) map[string]string {
	out := map[string]string{}
	for _, claim := range claims {
		pods, err := record.Pods(claim)
		if err != nil {
			continue // The annotation is missing or not slipway's: the claim has no promised pods.
		}
		for _, p := range pods {
			out[p.UID] = claim.Name
		}
	}
	return out
}

// awaiting maps the UID of each pod without a node to the NodeClaim that it is promised, nil for none. NodeClaims keep the promises of the pods
// that they have: most of them are of no pod that waits.
func awaiting(in Objects) map[string]*karpv1.NodeClaim {
	out := map[string]*karpv1.NodeClaim{}
	for _, pod := range in.Pods {
		if pod.Spec.NodeName == "" && !disruption.Terminal(pod) {
			out[string(pod.UID)] = nil
		}
	}
	if len(out) == 0 {
		return out
	}
	for _, claim := range in.NodeClaims {
		if !conditions.InFlight(claim) {
			continue // Its promises have ended, though the annotation stays.
		}
		for uid := range catalog.PromisedUIDs(claim.Annotations[catalog.PodsAnnotation]) {
			if other, waits := out[uid]; waits {
				out[uid] = newer(other, claim)
			}
		}
	}
	return out
}

// newer returns the NodeClaim that was created last, of two of the same second the one whose name is last. a may be nil.
func newer(a, b *karpv1.NodeClaim) *karpv1.NodeClaim {
	if a == nil || cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0 {
		return b
	}
	return a
}

// ClaimOf returns the NodeClaim on which the pod has its place, by promise or by its node; nil for none.
func ClaimOf(pod *corev1.Pod, in Objects) *karpv1.NodeClaim {
	var promised *karpv1.NodeClaim
	for _, claim := range in.NodeClaims {
		if pod.Spec.NodeName != "" && claim.Status.NodeName == pod.Spec.NodeName {
			return claim
		}
		text := claim.Annotations[catalog.PodsAnnotation]
		if pod.UID == "" || pod.Spec.NodeName == "" && !conditions.InFlight(claim) || !strings.Contains(text, string(pod.UID)) {
			continue
		}
		for uid := range catalog.PromisedUIDs(text) {
			if uid == string(pod.UID) {
				promised = newer(promised, claim)
			}
		}
	}
	return promised
}
