package nodematch

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Tolerates reports whether the tolerations let a pod onto a node with these taints; if not, it returns the first taint in
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

// ToleratesPreferred reports whether no taint with the effect PreferNoSchedule is in the way.
func ToleratesPreferred(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
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

// compares evaluates the numeric operators of KEP-5471 (TaintTolerationComparisonOperators).
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
