package record

import (
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// NewStaticNodeClaim returns a NodeClaim of a NodePool with spec.replicas: its template as it is. No pod is promised a place on its node, and
// the launch chooses among all instance types that the requirements allow. Requirements that cannot be read give no labels.
func NewStaticNodeClaim(name string, pool *karpv1.NodePool, class *awsv1.EC2NodeClass) *karpv1.NodeClaim {
	out := ofTemplate(name, pool, class)
	required, err := Requirements(out)
	if err != nil {
		return out
	}
	for key, set := range required {
		_, has := out.Labels[key]
		value, needed := set.Any()
		// Without a value of its own, a label that the instance decides has one once EC2 has chosen. Others have one from now on, as in Karpenter.
		if !has && needed && (len(set.List()) == 1 || !karpv1.WellKnownLabels.Has(key)) {
			out.Labels[key] = value
		}
	}
	return out
}
