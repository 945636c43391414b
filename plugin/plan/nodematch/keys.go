// Package nodematch says which nodes a pod matches by itself: its node selector and node affinity against a node's labels
// (nodeSelector and nodeAffinity of the scheduler's NodeAffinity plugin), and its tolerations against a node's taints
// (TaintToleration). Label keys are read as Karpenter reads them (catalog.NormalKey). It knows neither other pods nor resources.
package nodematch

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// FieldName stands for the node's name, as matchFields ask for it.
const FieldName = "metadata.name"

// NodeLabels returns a node's labels, its name included, under
// FieldName. A deprecated key without its normal one is left out: the scheduler
// compares keys as they are, and nodes have had both since Kubernetes 1.17.
func NodeLabels(name string, labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+2)
	for k, v := range labels {
		if catalog.NormalKey(k) == k {
			out[k] = v
		}
	}
	out[FieldName] = name
	if out[corev1.LabelHostname] == "" {
		out[corev1.LabelHostname] = name
	}
	return out
}
