package manifests

import (
	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"github.com/awslabs/operatorpkg/object"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	karpapis "sigs.k8s.io/karpenter/pkg/apis"
)

// CRDs returns Karpenter's CRDs, from Karpenter's modules: those of its AWS provider, and CapacityBuffer, which the provider's package lacks.
func CRDs() []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range awsapis.CRDs {
		out = append(out, crd.DeepCopy())
	}
	return append(out, object.Unmarshal[apiextensionsv1.CustomResourceDefinition](karpapis.CapacityBufferCRD))
}
