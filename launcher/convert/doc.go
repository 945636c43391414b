// Package convert reads manifests of Karpenter's older APIs (Provisioner v1alpha5, AWSNodeTemplate v1alpha1, NodePool and
// EC2NodeClass v1beta1) and writes them as v1, with the meaning they had: an old default that v1 has changed is written out.
//
// Nothing is lost silently: each field is taken out of the old object when it is carried over, and what is left in the end is
// reported. Values need not be of the type that the API asks for, so that placeholders such as ${CLUSTER_NAME} are kept.
// All other documents pass untouched. The package is pure; it starts no goroutine.
package convert
