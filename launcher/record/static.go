package record

import (
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// NewStaticNodeClaim returns a NodeClaim of a NodePool with spec.replicas: its template as it is. No pod is promised a place on its node, and
// the launch chooses among all instance types that the requirements allow.
func NewStaticNodeClaim(name string, pool *karpv1.NodePool, class *awsv1.EC2NodeClass) *karpv1.NodeClaim {
	out := ofTemplate(name, pool, class)
	for _, r := range out.Spec.Requirements {
		_, set := out.Labels[r.Key]
		switch {
		case set || r.Operator != corev1.NodeSelectorOpIn || len(r.Values) == 0:
		case len(r.Values) == 1 || !karpv1.WellKnownLabels.Has(r.Key):
			// A label that no instance type has gets one of its values, as in Karpenter.
			out.Labels[r.Key] = r.Values[0]
		}
	}
	return out
}
