package sandbox

import (
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeClass returns an EC2NodeClass with the role, the subnets and the security groups of the sandbox, and the newest AL2023. Callers may
// change it.
func NodeClass(name string) *awsv1.EC2NodeClass {
	of := map[string]string{"karpenter.sh/discovery": ClusterName}
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: awsv1.EC2NodeClassSpec{
		AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
		Role:                       nodeRole,
		SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: of}},
		SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: of}},
	}}
}
