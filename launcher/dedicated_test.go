package launcher

import (
	"context"
	"errors"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
)

// A NodePool of dedicated tenancy is launched at its own prices, with and without NodeOverlays. Others ask for no list, and a class without an answer stops
// none.
func TestListsOfDedicatedTenancy(t *testing.T) {
	pool := func(name, class string, dedicated bool) *karpv1.NodePool {
		p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: class}
		if dedicated {
			p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: catalog.LabelInstanceTenancy, Operator: "In", Values: []string{catalog.TenancyDedicated}}}
		}
		return p
	}
	class := func(name string) *awsv1.EC2NodeClass {
		return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	asked := 0
	own := &ownLists{
		cache: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(
			pool("alone", "good", true), pool("shared", "good", false), pool("lost", "bad", true), class("good"), class("bad"),
		).Build(),
		types: func(_ context.Context, c *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
			asked++
			if c.Name == "bad" {
				return nil, errors.New("no subnets")
			}
			return []catalog.InstanceType{{Name: "m5.large", DedicatedShare: 0.5, Offerings: []catalog.Offering{{Price: 0.1}}}}, nil
		},
		made: overlay.Repriced{},
	}
	if list, ok := own.of(t.Context(), "alone"); !ok || list[0].Offerings[0].Price < 0.1499 || list[0].Offerings[0].Price > 0.1501 || asked != 1 {
		t.Errorf("a dedicated NodePool has %v, %t; %d classes were asked for", list, ok, asked)
	}
	for _, name := range []string{"shared", "lost", "none"} {
		if list, ok := own.of(t.Context(), name); ok {
			t.Errorf("NodePool %s has a list of its own: %v", name, list)
		}
	}
	types := map[string][]catalog.InstanceType{"good": {{Name: "m5.large", DedicatedShare: 0.5, Offerings: []catalog.Offering{{Price: 0.1}}}}}
	result, err := own.apply(t.Context(), types)
	if err != nil || len(result.Keys) != 1 || result.Keys["alone"] != "good//dedicated" {
		t.Errorf("keys %v, %v", result.Keys, err)
	}
	own.overlay = func(_ context.Context, types map[string][]catalog.InstanceType) (overlay.Result, error) {
		return overlay.Result{Keys: map[string]string{"alone": "good/1"}, Lists: map[string][]catalog.InstanceType{"good/1": {{
			Name: "m5.large", DedicatedShare: 0.5, Offerings: []catalog.Offering{{Price: 0.2, Overlaid: true}, {Price: 0.1}},
		}}}}, errors.New("the API server does not answer")
	}
	if list, ok := own.of(t.Context(), "alone"); !ok || list[0].Offerings[0].Price != 0.2 || list[0].Offerings[1].Price < 0.1499 {
		t.Errorf("with a NodeOverlay's price it has %v, %t", list, ok)
	}
}
