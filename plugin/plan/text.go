package plan

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// termsText prints alternatives of requirements.
func termsText(terms []catalog.Requirements) string {
	var all []string
	for _, term := range terms {
		var keys []string
		for _, k := range sortedKeys(term) {
			keys = append(keys, k+" "+setText(term[k]))
		}
		all = append(all, strings.Join(keys, " and "))
	}
	return strings.Join(all, ", or ")
}

func setText(s catalog.Set) string {
	if s.Absent && !s.Complement && len(s.Values) == 0 {
		return "to be absent"
	}
	return s.String()
}

// figure prints a quantity for a human: 95.69, 1.5Gi, 4.
func figure(name corev1.ResourceName, n int64) string {
	if hugePages(name) {
		name = corev1.ResourceMemory
	}
	switch name {
	case catalog.LimitUSD:
		return trimZeros(fmt.Sprintf("%.6f", float64(n)/1e6))
	case corev1.ResourceCPU:
		return trimZeros(fmt.Sprintf("%.3f", float64(n)/1000))
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		if n >= 1<<30 {
			return trimZeros(fmt.Sprintf("%.2f", float64(n)/(1<<30))) + "Gi"
		}
		return trimZeros(fmt.Sprintf("%.2f", float64(n)/(1<<20))) + "Mi"
	default:
		return itoa(n)
	}
}

// hugePages reports whether the resource is memory in huge pages of one size.
func hugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func trimZeros(s string) string { return strings.TrimRight(strings.TrimRight(s, "0"), ".") }
