package record

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Patience is how long nodes may take to become Ready.
type Patience struct {
	// Promised is for a node that was launched for pods, or whose instance was started again for one.
	Promised time.Duration
	// Empty is for any other, and for machines that boot slowly.
	Empty time.Duration
}

// Of returns how long the node of a NodeClaim may take from the start of its instance. It does not depend on the pods that are promised the node
// meanwhile: a pod that comes late does not end a node that had more time before.
func (p Patience) Of(claim *karpv1.NodeClaim) time.Duration {
	switch {
	case BootsSlowly(claim):
		return max(p.Promised, p.Empty)
	case claim.Annotations[catalog.ForPodsAnnotation] != "" || Woken(claim):
		return p.Promised
	}
	return p.Empty
}

// BootsSlowly reports whether the instance is bare metal, which EC2 alone needs 5 to 15 minutes to start, or runs Windows.
func BootsSlowly(claim *karpv1.NodeClaim) bool {
	return strings.Contains(claim.Labels[corev1.LabelInstanceTypeStable], ".metal") || claim.Labels[corev1.LabelOSStable] == string(corev1.Windows)
}
