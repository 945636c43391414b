package plan

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Values of the label karpenter.sh/capacity-type.
const (
	capacitySpot     = "spot"
	capacityReserved = "reserved"
)

// Label keys that are not constants of k8s.io/api.
const (
	labelCapacityType = "karpenter.sh/capacity-type"
	labelNodePool     = "karpenter.sh/nodepool"
	labelNodeClass    = "karpenter.k8s.aws/ec2nodeclass"
	labelZoneID       = "topology.k8s.aws/zone-id"
	labelRegistered   = "karpenter.sh/registered"
	labelInitialized  = "karpenter.sh/initialized"
	labelEBSZone      = "topology.ebs.csi.aws.com/zone"
	labelBetaArch     = "beta.kubernetes.io/arch"
	labelBetaOS       = "beta.kubernetes.io/os"
	// fieldName stands for the node's name, as matchFields ask for it.
	fieldName = "metadata.name"
)

// aliases returns the keys that mean the same as the given normal key.
func aliases(key string) []string {
	switch key {
	case corev1.LabelTopologyZone:
		return []string{corev1.LabelFailureDomainBetaZone, labelEBSZone}
	case corev1.LabelTopologyRegion:
		return []string{corev1.LabelFailureDomainBetaRegion}
	case corev1.LabelArchStable:
		return []string{labelBetaArch}
	case corev1.LabelOSStable:
		return []string{labelBetaOS}
	case corev1.LabelInstanceTypeStable:
		return []string{corev1.LabelInstanceType}
	}
	return nil
}

// NormalKey returns the label key that a deprecated or driver-specific one stands for, as Karpenter reads them; any
// other key is returned as it is.
func NormalKey(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone, labelEBSZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	case labelBetaArch:
		return corev1.LabelArchStable
	case labelBetaOS:
		return corev1.LabelOSStable
	case corev1.LabelInstanceType:
		return corev1.LabelInstanceTypeStable
	}
	return key
}

// PodRequirements is what a pod demands of a node's labels, as alternatives of which one must be met: its nodeSelector
// joined with each term of its required node affinity, all keys normal (NormalKey). A demand on the node's name has the
// key metadata.name. A pod without demands has one alternative, an empty one. Terms that are not valid match no node;
// if none is left, the error of the first is returned.
func PodRequirements(pod *corev1.Pod) ([]catalog.Requirements, error) {
	var base []catalog.Requirement
	for k, v := range pod.Spec.NodeSelector {
		base = append(base, catalog.Requirement{Key: NormalKey(k), Operator: corev1.NodeSelectorOpIn, Values: []string{v}})
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		r, err := catalog.NewRequirements(base)
		return []catalog.Requirements{r}, err
	}
	if why := tooManyTerms(&pod.Spec); why != "" {
		return nil, fmt.Errorf("pod %s/%s: %s", pod.Namespace, pod.Name, why)
	}
	var out []catalog.Requirements
	err := fmt.Errorf("pod %s/%s: spec.affinity.nodeAffinity has no term that can match", pod.Namespace, pod.Name)
	for i, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		all := append([]catalog.Requirement{}, base...)
		for _, e := range append(append([]corev1.NodeSelectorRequirement{}, term.MatchExpressions...), term.MatchFields...) {
			all = append(all, catalog.Requirement{Key: NormalKey(e.Key), Operator: e.Operator, Values: e.Values})
		}
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue // An empty term matches no node (NodeSelectorTerm's doc in k8s.io/api).
		}
		r, bad := catalog.NewRequirements(all)
		if bad != nil {
			if len(out) == 0 {
				err = fmt.Errorf("pod %s/%s: node affinity term %d: %w", pod.Namespace, pod.Name, i, bad)
			}
			continue
		}
		out = append(out, r)
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, err
}

// maxCombined is how many labels of a node selector and terms of node affinity a pod may have, multiplied: each term is read together with
// all of the labels. A megabyte has room for ten thousand of both.
const maxCombined = 1 << 14

// tooManyTerms says that the pod is above maxCombined; empty if not.
func tooManyTerms(spec *corev1.PodSpec) string {
	a := spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	labels, terms := len(spec.NodeSelector), len(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	if labels*terms <= maxCombined {
		return ""
	}
	return fmt.Sprintf("has %d labels in its node selector and %d required node affinity terms; slipway launches nodes for pods with at most %d combinations of them", labels, terms, maxCombined)
}

// Tolerates says whether the tolerations let a pod onto a node with these taints; if not, it returns the first taint in
// the way. PreferNoSchedule is never in the way.
func Tolerates(tolerations []corev1.Toleration, taints []corev1.Taint) (corev1.Taint, bool) {
	for _, taint := range taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !toleratesOne(tolerations, taint) {
			return taint, false
		}
	}
	return corev1.Taint{}, true
}

// toleratesSoft says that no taint with the effect PreferNoSchedule is in the way.
func toleratesSoft(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	for _, taint := range taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule && !toleratesOne(tolerations, taint) {
			return false
		}
	}
	return true
}

func toleratesOne(tolerations []corev1.Toleration, taint corev1.Taint) bool {
	for _, t := range tolerations {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case "", corev1.TolerationOpEqual:
			if t.Value == taint.Value {
				return true
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt:
			if compares(t, taint) {
				return true
			}
		}
	}
	return false
}

// compares is the numeric operators of KEP-5471 (TaintTolerationComparisonOperators).
func compares(t corev1.Toleration, taint corev1.Taint) bool {
	limit, err := strconv.ParseInt(t.Value, 10, 64)
	value, err2 := strconv.ParseInt(taint.Value, 10, 64)
	if err != nil || err2 != nil {
		return false
	}
	if t.Operator == corev1.TolerationOpLt {
		return value < limit
	}
	return value > limit
}

// RegionOf derives the region from the name of a zone.
func RegionOf(zone string) string { return regionOf(zone) }

// regionOf derives the region from the name of a zone: us-east-1 of us-east-1a and of us-east-1-bos-1a.
func regionOf(zone string) string {
	parts := strings.Split(zone, "-")
	for i, p := range parts {
		if p != "" && p[0] >= '0' && p[0] <= '9' {
			parts[i] = strings.TrimRight(p, "abcdefghijklmnopqrstuvwxyz")
			return strings.Join(parts[:i+1], "-")
		}
	}
	return zone
}

// isHost says that the label tells nodes apart.
func isHost(key string) bool { return key == corev1.LabelHostname }
