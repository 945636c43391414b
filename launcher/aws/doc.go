// Package aws implements launcher/cloud over EC2, SQS, SSM, IAM, EKS and Pricing. It is the only importer of the AWS
// SDK's clients. It translates the interface to AWS calls. What it decides itself follows Karpenter: which capacity type of a NodeClaim is
// tried first, the subnet, and which offerings count as unavailable after a failed launch.
//
// A Cloud starts no goroutine of its own. Refresh runs in its caller's; calls that ask AWS for several things at once
// wait for all of them before they return. Every method may be called concurrently.
//
// User data never reaches a log, an error or a metric.
package aws
