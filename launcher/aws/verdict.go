package aws

import (
	"errors"
	"regexp"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// verdict is the meaning of an AWS error for a launch. It is determined once, here; all other code branches on its cause.
type verdict struct {
	cause cloud.Cause
	// code is EC2's error code; ec2error.NoAnswer if there was no answer.
	code ec2error.Code
	// reason is one CamelCase word, Karpenter's if it has one. Conditions, metrics and alerts use it.
	reason string
	// message describes the problem to the user, and what to change.
	message string
}

// profileUnknown is the reason while EC2 cannot use a new instance profile yet.
const profileUnknown = "InstanceProfileNameInvalid"

// ofRequest reports whether the error is about what a fleet asks for, not about what EC2 has.
func (v verdict) ofRequest() bool {
	return v.cause == cloud.CauseInvalid || v.cause == cloud.CauseUnauthorized || v.cause == cloud.CauseTemplateGone || v.reason == profileUnknown
}

// judge classifies the error of a call.
func judge(err error) verdict {
	action := ""
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		action = strings.ToLower(op.Service()) + ":" + op.Operation()
	}
	c := code(err)
	v := judgeCode(c, message(err), action)
	if c == "" {
		return verdict{cloud.CauseTransient, ec2error.NoAnswer, "LaunchFailed", message(err)}
	}
	if v.cause == "" {
		v = verdict{cause: cloud.CauseTransient, reason: "LaunchFailed", message: withCode(c, message(err))}
	}
	v.code = c
	return v
}

// judgeFleet classifies an error in a fleet's answer.
func judgeFleet(c, text string) verdict {
	// A fleet launches with the caller's permissions.
	of := ec2error.OfFleet(c, text)
	v := judgeCode(of, text, "ec2:RunInstances")
	if v.cause == "" {
		v = verdict{cause: cloud.CauseUnknown, reason: "LaunchFailed", message: withCode(of, text)}
	}
	v.code = of
	return v
}

// withCode returns EC2's text behind its code.
func withCode(c ec2error.Code, text string) string { return string(c) + ": " + text }

// judgeCode is the table of codes; the first matching line decides. The caller adds the code.
func judgeCode(c ec2error.Code, text, action string) verdict {
	v := func(cause cloud.Cause, reason, message string) verdict {
		return verdict{cause: cause, reason: reason, message: message}
	}
	switch {
	case c == ec2error.SpotServiceLinkedRole:
		return v(cloud.CauseSpotRole, c.Reason(), withCode(c, text)+": the account has no service-linked role for EC2 Spot and the launcher may not create it")
	case c.IsDenied() || strings.HasPrefix(string(c), string(ec2error.AuthFailure)):
		return denied(c, text, action)
	case c.IsTemplateGone():
		return v(cloud.CauseTemplateGone, "LaunchTemplateNotFound", "a launch template was deleted; it is made again")
	case c.IsThrottled():
		return v(cloud.CauseThrottled, "RequestLimitExceeded", withCode(c, "EC2 throttles the requests of this account and region"))
	case c.IsServersFault():
		return v(cloud.CauseTransient, "InternalError", withCode(c, text))
	case c == ec2error.UnsupportedHibernation:
		return v(cloud.CauseTransient, "HibernationUnsupported", withCode(c, text))
	case c.IsCapacity():
		return v(cloud.CauseCapacity, c.Reason(), withCode(c, text))
	case c.IsQuota():
		return v(cloud.CauseQuota, c.Reason(), withCode(c, text))
	case strings.Contains(text, "not eligible for Free Tier"):
		return v(cloud.CauseQuota, ec2error.ReasonFreeTier, withCode(c, text))
	case c.IsParameter() && isProfilePropagating(text):
		return v(cloud.CauseTransient, profileUnknown, "EC2 cannot use the instance profile yet: "+text)
	case c.IsParameter():
		return refusal(c, text)
	}
	return verdict{}
}

// missing matches the action that AWS names in a denial. "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform:
// ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:instance/* because no identity-based policy allows the ec2:RunInstances action.
// Encoded authorization failure message: ...".
var missing = regexp.MustCompile(`not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)(?: on resource: (\S+))?`)

func denied(c ec2error.Code, text, action string) verdict {
	resource := ""
	if found := missing.FindStringSubmatch(text); found != nil {
		action, resource = found[1], found[2]
	}
	v := verdict{cause: cloud.CauseUnauthorized, reason: "Unauthorized", message: "the launcher's IAM role may not do " + action}
	if resource != "" {
		v.message += " on " + resource
	}
	switch {
	case c == ec2error.PendingVerification:
		v.reason, v.message = "AccountPendingVerification", "AWS is still verifying the account"
	case c == ec2error.OptInRequired || c == ec2error.Blocked || c == ec2error.AccountDisabled:
		v.message = "the account may not use EC2"
	case c == ec2error.InvalidClientTokenID || c == ec2error.UnrecognizedClient:
		v.message = "AWS rejects the launcher's credentials"
	case strings.Contains(text, "Not authorized for images"):
		v.reason, v.message = "AMIAuthorizationFailure", "spec.amiSelectorTerms: the account may not use the AMI"
	case strings.Contains(text, "explicit deny in a permissions boundary"):
		v.message += ": its permissions boundary denies it"
	case strings.Contains(text, "explicit deny in a service control policy"):
		v.message += ": a service control policy denies it"
	case strings.Contains(text, "explicit deny"):
		v.message += ": a policy denies it"
	default:
		v.message += ": no policy allows it. Compare manifests/iam/launcher.json"
	}
	v.message += ". AWS: " + withCode(c, ec2error.Clip(text))
	return v
}

// refusal returns the verdict that names the field of the EC2NodeClass that EC2 rejects.
func refusal(c ec2error.Code, text string) verdict {
	v := verdict{cause: cloud.CauseInvalid, reason: "LaunchFailed", message: withCode(c, text)}
	field := fieldOf(c, text)
	if field != "" {
		v.message = field + ": " + v.message
	}
	switch {
	case strings.Contains(text, "belong to different networks"):
		v.reason = "SecurityGroupSubnetVPCMismatch"
		v.message = "spec.securityGroupSelectorTerms and spec.subnetSelectorTerms select from different VPCs: " + text
	case strings.Contains(text, "User data is limited to"):
		v.reason = "UserDataSizeLimitExceeded"
	case c == "InvalidAMIID.Malformed":
		v.reason = "InvalidAMIID"
	case strings.HasPrefix(string(c), "InvalidAMIID"):
		v.reason = "AMINotFound"
	}
	return v
}

// fields maps the words of EC2's codes and texts about parameters to the fields that they come from. The first match decides.
func fields() [][2]string {
	return [][2]string{
		{"invalidamiid", "spec.amiSelectorTerms"},
		{"userdata", "spec.userData"},
		{"user data", "spec.userData"},
		{"iaminstanceprofile", "spec.role or spec.instanceProfile"},
		{"instance profile", "spec.role or spec.instanceProfile"},
		{"kmskey", "spec.blockDeviceMappings[].ebs.kmsKeyID"},
		{"kms key", "spec.blockDeviceMappings[].ebs.kmsKeyID"},
		{"snapshot", "spec.blockDeviceMappings[].ebs.snapshotID"},
		{"volumeinitializationrate", "spec.blockDeviceMappings[].ebs.volumeInitializationRate"},
		{"iops", "spec.blockDeviceMappings[].ebs.iops"},
		{"throughput", "spec.blockDeviceMappings[].ebs.throughput"},
		{"volume size", "spec.blockDeviceMappings[].ebs.volumeSize"},
		{"volumesize", "spec.blockDeviceMappings[].ebs.volumeSize"},
		{"volume", "spec.blockDeviceMappings"},
		{"blockdevice", "spec.blockDeviceMappings"},
		{"block device", "spec.blockDeviceMappings"},
		{"hoplimit", "spec.metadataOptions.httpPutResponseHopLimit"},
		{"httptokens", "spec.metadataOptions.httpTokens"},
		{"metadata", "spec.metadataOptions"},
		{"connectiontracking", "spec.connectionTracking"},
		{"connection tracking", "spec.connectionTracking"},
		{"publicipaddress", "spec.associatePublicIPAddress"},
		{"public ip", "spec.associatePublicIPAddress"},
		{"ipv4prefix", "spec.ipPrefixCount"},
		{"prefix", "spec.ipPrefixCount"},
		{"efa", "spec.networkInterfaces"},
		{"networkcard", "spec.networkInterfaces"},
		{"networkinterface", "spec.networkInterfaces"},
		{"network interface", "spec.networkInterfaces"},
		{"nestedvirtualization", "spec.cpuOptions"},
		{"cpuoptions", "spec.cpuOptions"},
		{"capacityreservation", "spec.capacityReservationSelectorTerms"},
		{"capacity reservation", "spec.capacityReservationSelectorTerms"},
		{"placementgroup", "spec.placementGroupSelector"},
		{"placement group", "spec.placementGroupSelector"},
		{"tenancy", "the NodePool's karpenter.k8s.aws/instance-tenancy"},
		{"subnet", "spec.subnetSelectorTerms"},
		{"securitygroup", "spec.securityGroupSelectorTerms"},
		{"security group", "spec.securityGroupSelectorTerms"},
		{"invalidgroup", "spec.securityGroupSelectorTerms"},
		{"context", "spec.context"},
		{"tag", "spec.tags"},
		{"ami ", "spec.amiSelectorTerms"},
		{"image", "spec.amiSelectorTerms"},
		{"architecture", "spec.amiSelectorTerms"},
		{"monitoring", "spec.detailedMonitoring"},
	}
}

func fieldOf(c ec2error.Code, text string) string {
	for _, in := range []string{strings.ToLower(string(c)), strings.ToLower(text)} {
		for _, f := range fields() {
			if strings.Contains(in, f[0]) {
				return f[1]
			}
		}
	}
	return ""
}

// classError returns a launch's error for a verdict that only a change by a user or administrator can lift.
func (v verdict) classError(class string) error {
	return &cloud.NodeClassError{Class: class, Code: v.code, Reason: v.reason, Message: v.message, Cause: v.cause}
}
