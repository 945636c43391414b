package ec2error

import (
	"fmt"
	"strings"
)

// Remedy returns what lifts the code for an instance type, as a sentence in the imperative; "" if nothing is known.
func (c Code) Remedy(instanceType string) string {
	switch {
	case c == VcpuLimitExceeded, c == InstanceLimitExceeded, c == MaxSpotInstanceCountExceeded, c == SpotInstanceCountExceeded:
		return raise(QuotaOf(instanceType, c))
	case c == SpotServiceLinkedRole:
		return "create the service-linked role: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
	case c == MaxFleetCountExceeded, c == MaxSpotFleetRequestCountExceeded:
		return "request a higher quota of EC2 Fleets (EC2 user guide, \"Quotas for EC2 Fleet\")"
	case c == VolumeLimitExceeded, c == MaxIOPSLimitExceeded:
		return "request a higher EBS quota: aws service-quotas list-service-quotas --service-code ebs"
	case c == PrivateIPAddressLimitExceeded, c == NetworkInterfaceLimitExceeded:
		return "request a higher VPC quota: aws service-quotas list-service-quotas --service-code vpc"
	case c.IsQuota():
		return "request a higher quota: aws service-quotas list-service-quotas --service-code ec2"
	case c == ZonalShift:
		return "wait for the end of the cluster's zonal shift, cancel it, or allow other zones"
	case c.IsAddress():
		return "free addresses, or let spec.subnetSelectorTerms select subnets that have some"
	case c.IsCapacity():
		return "allow more instance types, zones or capacity types"
	}
	return c.accountRemedy(instanceType)
}

// accountRemedy returns what lifts a code that is not about what EC2 has. With an instance type EC2 refuses that one.
func (c Code) accountRemedy(instanceType string) string {
	switch {
	case c == PendingVerification, c == OptInRequired, c == Blocked, c == AccountDisabled:
		return "ask AWS Support to open the account for EC2"
	case c == InvalidClientTokenID, c == UnrecognizedClient:
		return "check the credentials of the launcher's Pod"
	case c.IsDenied() && instanceType != "":
		return "allow the instance type in the policy that denies it (the launcher's own is manifests/iam/launcher.json), or leave it out of the NodePool"
	case c.IsDenied(), strings.HasPrefix(string(c), string(AuthFailure)):
		return "give the launcher's IAM role the action: manifests/iam/launcher.json has all"
	case c.IsParameter() && instanceType != "":
		return "leave the instance type out of the NodePool, or change what it cannot have in the EC2NodeClass"
	case c.IsThrottled():
		return "find what else calls EC2 in this account and region; launches go on by themselves"
	case c == NoAnswer:
		return "check the way from the launcher to EC2: endpoint, DNS, proxy, routes; launches go on by themselves"
	case c.IsServersFault():
		return "look at https://health.aws.amazon.com; launches go on by themselves"
	}
	return ""
}

// raise returns how to raise a quota.
func raise(q Quota) string {
	if q.Code == "" {
		return "request a higher quota: aws service-quotas list-service-quotas --service-code ec2"
	}
	return fmt.Sprintf("request a higher vCPU quota %s (%s): aws service-quotas request-service-quota-increase --service-code ec2 "+
		"--quota-code %s --desired-value VCPUS; or allow instance types and capacity types of another quota", q.Code, q.Name, q.Code)
}
