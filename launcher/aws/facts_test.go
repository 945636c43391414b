package aws

import (
	"slices"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func TestAliasParameters(t *testing.T) {
	for _, tc := range []struct {
		family, version string
		n               int
		has             string
	}{
		{"AL2023", "latest", 5, "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/standard/recommended/image_id"},
		{"AL2023", "v20260101", 5, "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.36-v20260101/image_id"},
		{"AL2", "latest", 3, "/aws/service/eks/optimized-ami/1.36/amazon-linux-2-gpu/recommended/image_id"},
		{"AL2", "v20260101", 3, "/aws/service/eks/optimized-ami/1.36/amazon-linux-2-arm64/amazon-eks-arm64-node-1.36-v20260101/image_id"},
		{"Bottlerocket", "v1.46.0", 4, "/aws/service/bottlerocket/aws-k8s-1.36-nvidia/arm64/1.46.0/image_id"},
		{"Windows2022", "latest", 1, "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.36/image_id"},
		{"Ubuntu", "latest", 0, ""},
	} {
		got := aliasParameters(tc.family, tc.version, "1.36")
		found := slices.ContainsFunc(got, func(p imageParameter) bool { return p.name == tc.has })
		if len(got) != tc.n || tc.n > 0 && !found {
			t.Errorf("%s@%s: %+v, want %d with %s", tc.family, tc.version, got, tc.n, tc.has)
		}
	}
}

func TestNewest(t *testing.T) {
	ami := func(id, created string, arch ec2types.ArchitectureValues, v variant) image {
		return image{ec2types.Image{ImageId: &id, Name: &id, CreationDate: &created, Architecture: arch}, v}
	}
	old := ami("ami-old-std", "2026-01-01T00:00:00.000Z", "arm64", variantStandard)
	old.DeprecationTime = awssdk.String("2026-02-01T00:00:00Z")
	late := ami("ami-gpu", "2026-01-02T00:00:00.000Z", "x86_64", variantNVIDIA)
	late.DeprecationTime = awssdk.String("2026-02-01T00:00:00Z")
	withdrawn := ami("ami-withdrawn", "2026-01-05T00:00:00.000Z", "arm64", variantStandard)
	withdrawn.DeprecationTime = awssdk.String("2026-01-06T00:00:00Z")
	got := newest([]image{
		withdrawn, old, late, ami("ami-std", "2026-01-03T00:00:00.000Z", "arm64", variantStandard),
		ami("ami-b", "2026-01-01T00:00:00.000Z", "x86_64", variantAny), ami("ami-a", "2026-01-01T00:00:00.000Z", "x86_64", variantAny),
		ami("ami-32", "2026-01-01T00:00:00.000Z", "i386", variantAny),
	}, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	arch := func(a string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: corev1.LabelArchStable, Operator: "In", Values: []string{a}}
	}
	want := []awsv1.AMI{
		{ID: "ami-std", Name: "ami-std", Requirements: []corev1.NodeSelectorRequirement{
			arch("arm64"), {Key: awsv1.LabelInstanceAcceleratorCount, Operator: "DoesNotExist"}, {Key: awsv1.LabelInstanceGPUCount, Operator: "DoesNotExist"},
		}},
		{ID: "ami-gpu", Name: "ami-gpu", Deprecated: true, Requirements: []corev1.NodeSelectorRequirement{
			arch("amd64"), {Key: awsv1.LabelInstanceGPUCount, Operator: "Exists"},
		}},
		{ID: "ami-a", Name: "ami-a", Requirements: []corev1.NodeSelectorRequirement{arch("amd64")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImagesPickByLabels(t *testing.T) {
	class := nodeClass()
	class.Status.AMIs = nil
	for id, v := range map[string]variant{"std": variantStandard, "gpu": variantNVIDIA, "neuron": variantNeuron} {
		class.Status.AMIs = append(class.Status.AMIs, awsv1.AMI{ID: id, Requirements: v.requirements()})
	}
	images, err := imagesOf(class)
	if err != nil {
		t.Fatal(err)
	}
	device := []catalog.Device{{Name: "d", Manufacturer: "m", Count: 1}}
	for want, facts := range map[string]catalog.Facts{
		"std": {Name: "m7g.large"}, "gpu": {Name: "g5.xlarge", GPUs: device}, "neuron": {Name: "inf2.xlarge", Neuron: device},
	} {
		if got, ok := images.pick(catalog.Labels(facts, catalog.FamilyAL2023)); got != want || !ok {
			t.Errorf("%s runs %q, want %q", facts.Name, got, want)
		}
	}
}
