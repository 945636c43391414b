package day

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// priceStep is how many minutes a spot price lasts.
const priceStep = 20

func zones() []string { return []string{"us-east-1a", "us-east-1b", "us-east-1c"} }

// families that are bought.
func families() []string { return []string{"c6i", "m6i", "r6i", "c7i", "m7i", "c6a", "m6a"} }

// newMarket has the on-demand prices of the built-in catalogue, and spot prices of about a third of them.
func newMarket(rng *rand.Rand) (*market.Market, error) {
	m, err := market.Read(market.Files{})
	if err != nil {
		return nil, err
	}
	m.Types = slices.Clone(m.Types)
	m.Types = slices.DeleteFunc(m.Types, func(facts catalog.Facts) bool {
		family, _, _ := strings.Cut(facts.Name, ".")
		return !slices.Contains(families(), family) || strings.Contains(facts.Name, "metal")
	})
	m.Zones, m.Spot = zones(), map[string]map[string]float64{}
	for _, zone := range m.Zones {
		m.Spot[zone] = map[string]float64{}
		for i := range m.Types {
			name := m.Types[i].Name
			m.Spot[zone][name] = m.OnDemand[name] * (0.28 + 0.14*rng.Float64())
		}
	}
	return m, nil
}

// drift moves every spot price a little, between a fifth and four fifths of the on-demand price.
func drift(m *market.Market, rng *rand.Rand) {
	for _, zone := range m.Zones {
		for _, name := range slices.Sorted(maps.Keys(m.Spot[zone])) {
			of := m.OnDemand[name]
			m.Spot[zone][name] = min(max(m.Spot[zone][name]*(0.95+0.1*rng.Float64()), of/5), of*4/5)
		}
	}
}

// pools are one for what has to stay, on demand, and one for what may be interrupted: on spot, and where there are commitments on demand too.
func pools(committed bool) []*karpv1.NodePool {
	flexible := []string{karpv1.CapacityTypeSpot}
	if committed {
		flexible = append(flexible, karpv1.CapacityTypeOnDemand)
	}
	return []*karpv1.NodePool{nodePool("flexible", flexible...), nodePool("steady", karpv1.CapacityTypeOnDemand)}
}

func nodePool(name string, capacity ...string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: capacity},
		{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpLt, Values: []string{"17"}},
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.ArchitectureAmd64}},
	}
	p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s")
	return p
}
