// Package convert reads manifests of Karpenter's older APIs (Provisioner v1alpha5, AWSNodeTemplate v1alpha1, NodePool and EC2NodeClass
// v1beta1) and writes them as v1 with the same meaning: an old default that v1 changed is written out.
//
// No field is lost silently: each field is removed from the old object when it is converted, and the remaining ones are reported. Values may
// have another type than the API requires, so that placeholders such as ${CLUSTER_NAME} are kept. All other documents are copied unchanged.
// The package is pure; it starts no goroutine.
package convert
