package market

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// usdSum adds up what nodes count against a limit in USD.
type usdSum struct {
	prices catalog.Prices
	micro  int64
}

// newUSDSum returns the sum of a NodePool without nodes, which are launched from these types.
func newUSDSum(pool catalog.NodePool, types []catalog.InstanceType) *usdSum {
	out := &usdSum{prices: catalog.Prices{Types: map[string]catalog.InstanceType{}, Declared: pool.Declared}}
	if _, limited := pool.Limits[catalog.LimitUSD]; !limited {
		return out
	}
	for _, t := range types {
		out.prices.Types[t.Name] = t
	}
	return out
}

// add adds a node with these labels. One whose price is not known counts nothing, as in a simulation's sum.
func (s *usdSum) add(labels map[string]string) {
	micro, _ := s.prices.At(labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelTopologyZone], labels[karpv1.CapacityTypeLabelKey])
	s.micro += micro
}
