package node

import karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

// Marks returns those labels of a Node by which it is slipway's. Its Lease gets them as well: manifests/admission keeps the launcher from
// Nodes and Leases that have neither.
func Marks(labels map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{karpv1.NodePoolLabelKey, karpv1.CapacityTypeLabelKey} {
		if value, ok := labels[key]; ok {
			out[key] = value
		}
	}
	return out
}

// Marked reports whether an object with these labels is slipway's.
func Marked(labels map[string]string) bool { return len(Marks(labels)) > 0 }
