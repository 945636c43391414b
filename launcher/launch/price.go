package launch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

func byName(list []catalog.InstanceType) map[string]catalog.InstanceType {
	out := make(map[string]catalog.InstanceType, len(list))
	for _, t := range list {
		out[t.Name] = t
	}
	return out
}

// price writes into the annotations of a claim which offering of the type its instance is, and what its node costs, in USD per hour.
func price(claim *karpv1.NodeClaim, i cloud.Instance, t catalog.InstanceType) {
	cost := costOf(t, i, claim)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.ExpectedAnnotation, record.FormatExpected(i.InstanceType, i.Zone, i.CapacityType, cost.Total()))
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.CostAnnotation, catalog.FormatCost(cost))
}

// costOf returns what the claim's node costs as the instance that EC2 chose; zero if the class has no such offering any more.
func costOf(t catalog.InstanceType, i cloud.Instance, claim *karpv1.NodeClaim) catalog.Cost {
	planned, _ := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
	declared, _ := catalog.DeclaredCost(claim.Annotations) // The NodePool's condition reports the error.
	declared.NodeCost = planned.Declared
	for _, o := range t.Offerings {
		if o.Zone == i.Zone && o.CapacityType == i.CapacityType && o.ReservationID == i.ReservationID {
			cost := t.CostOf(o.Price, declared, claim.Spec.Resources.Requests.Cpu().MilliValue())
			cost.Interruptions = planned.Interruptions
			if claim.Annotations[catalog.CoveredByAnnotation] != "" && o.Coverable() {
				cost.Instance = planned.Instance // Commitments pay for it, whichever alternative it is.
			}
			return cost
		}
	}
	return catalog.Cost{}
}
