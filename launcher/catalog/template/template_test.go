package template_test

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
)

func labeled() *karpv1.NodePool {
	p := &karpv1.NodePool{}
	p.Name = "default"
	p.Spec.Template.Labels = map[string]string{
		"team": "a", karpv1.CapacityTypeLabelKey: "on-demand", "beta.kubernetes.io/arch": "arm64", awsv1.LabelInstanceCategory: "m",
		awsv1.LabelInstanceTenancy: "dedicated", "topology.ebs.csi.aws.com/zone": "us-east-1a",
	}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: "rack", Operator: "Exists"}, {Key: corev1.LabelInstanceTypeStable, Operator: "Exists", MinValues: new(2)},
	}
	return p
}

// A well-known label of the template is a requirement after those of the spec, and no label that the pool alone decides. Dedicated tenancy is both: every
// instance type has it.
func TestWellKnownLabelsAreRequirements(t *testing.T) {
	p := labeled()
	before, hash := p.DeepCopy(), p.Hash()
	in := func(key, value string) catalog.Requirement {
		return catalog.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	want := []catalog.Requirement{
		{Key: "rack", Operator: corev1.NodeSelectorOpExists},
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpExists, MinValues: 2},
		in(corev1.LabelArchStable, "arm64"), in(awsv1.LabelInstanceCategory, "m"), in(awsv1.LabelInstanceTenancy, "dedicated"),
		in(karpv1.CapacityTypeLabelKey, "on-demand"), in(corev1.LabelTopologyZone, "us-east-1a"),
	}
	if diff := cmp.Diff(want, template.Needs(p)); diff != "" {
		t.Errorf("requirements, -want +got:\n%s", diff)
	}
	own := map[string]string{karpv1.NodePoolLabelKey: "default", "team": "a", awsv1.LabelInstanceTenancy: "dedicated"}
	if diff := cmp.Diff(own, template.Decided(p)); diff != "" {
		t.Errorf("labels that the pool alone decides, -want +got:\n%s", diff)
	}
	all := template.Labels(p)
	if len(all) != 7 || all["beta.kubernetes.io/arch"] != "arm64" || all[karpv1.NodePoolLabelKey] != "default" {
		t.Errorf("labels %v", all)
	}
	if diff := cmp.Diff(before, p); diff != "" || p.Hash() != hash {
		t.Errorf("the NodePool was changed: hash %s, before %s\n%s", p.Hash(), hash, diff)
	}
}

// Requirements decide the tenancy too, and default tenancy is no label of the pool.
func TestTenancy(t *testing.T) {
	p := &karpv1.NodePool{}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: awsv1.LabelInstanceTenancy, Operator: "NotIn", Values: []string{"default"}}}
	if got := template.Decided(p)[awsv1.LabelInstanceTenancy]; got != "dedicated" {
		t.Errorf("tenancy %q where default is excluded", got)
	}
	p.Spec.Template.Spec.Requirements, p.Spec.Template.Labels = nil, map[string]string{awsv1.LabelInstanceTenancy: "default"}
	if got, ok := template.Decided(p)[awsv1.LabelInstanceTenancy]; ok {
		t.Errorf("tenancy %q, which the pool does not decide", got)
	}
}
