package aws

import (
	"errors"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
)

// The error codes of EC2 that mean something here (EC2 API reference, "Error codes for the Amazon EC2 API").
const (
	codeInsufficientInstanceCapacity = "InsufficientInstanceCapacity"
	codeInsufficientHostCapacity     = "InsufficientHostCapacity"
	codeInsufficientCapacity         = "InsufficientCapacity"
	codeUnfulfillableCapacity        = "UnfulfillableCapacity"
	codeUnsupported                  = "Unsupported"
	codeVcpuLimitExceeded            = "VcpuLimitExceeded"
	codeMaxSpotInstanceCountExceeded = "MaxSpotInstanceCountExceeded"
	codeMaxFleetCountExceeded        = "MaxFleetCountExceeded"
	codeInsufficientFreeAddresses    = "InsufficientFreeAddressesInSubnet"
	codeSpotServiceLinkedRole        = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
)

// code returns AWS's error code, empty where err is none of AWS's.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func message(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorMessage()
	}
	return err.Error()
}

// isCapacityCode says that an offering has no capacity now and may have later.
func isCapacityCode(c string) bool {
	switch c {
	case codeInsufficientInstanceCapacity, codeInsufficientHostCapacity, codeInsufficientCapacity,
		codeUnfulfillableCapacity, codeUnsupported, codeVcpuLimitExceeded, codeMaxSpotInstanceCountExceeded,
		codeMaxFleetCountExceeded, codeInsufficientFreeAddresses, codeSpotServiceLinkedRole:
		return true
	}
	return false
}

// isTemplateGone says that EC2 does not know a launch template. "InvalidLaunchTemplateName.NotFoundException: The
// specified launch template, with template name X, does not exist.".
func isTemplateGone(c string) bool {
	return strings.HasPrefix(c, "InvalidLaunchTemplateName.NotFound") || strings.HasPrefix(c, "InvalidLaunchTemplateId.NotFound")
}

// isTemplateThere says that a launch template of that name exists already.
func isTemplateThere(err error) bool {
	return strings.HasPrefix(code(err), "InvalidLaunchTemplateName.AlreadyExists")
}

// isInstanceUnknown says that EC2 does not know an instance. "InvalidInstanceID.NotFound: The instance ID 'i-x' does
// not exist.".
func isInstanceUnknown(c string) bool {
	return c == "InvalidInstanceID.NotFound" || c == "InvalidInstanceID.Malformed"
}

// isAbsent says that what was asked for by name does not exist in IAM, SSM or EKS.
func isAbsent(err error) bool {
	return slices.Contains([]string{
		"NoSuchEntity", "ParameterNotFound", "ParameterVersionNotFound", "ResourceNotFoundException",
	}, code(err))
}

// isQueueGone says that SQS has no such queue.
func isQueueGone(err error) bool {
	c := code(err)
	return strings.HasSuffix(c, "NonExistentQueue") || strings.HasSuffix(c, "QueueDoesNotExist")
}

// isThere says that IAM has an entity of that name already.
func isThere(err error) bool { return code(err) == "EntityAlreadyExists" }

// isDenied says that the caller lacks a permission.
func isDenied(c string) bool {
	return slices.Contains([]string{
		"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "OptInRequired",
	}, c)
}

// isTransient says that the same call may succeed a moment later.
func isTransient(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return true
	}
	return api.ErrorFault() == smithy.FaultServer || slices.Contains([]string{
		"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"TooManyRequestsException", "RequestThrottledException", "EC2ThrottledException", "InternalError",
		"InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout",
	}, api.ErrorCode())
}

// isClassFault says that a launch failed for what the class or its account says: repeating it as it is cannot help.
func isClassFault(c, text string) bool {
	if c == "InvalidParameterValue" && isProfilePropagating(text) {
		return false
	}
	if slices.Contains([]string{
		"InvalidUserData.Malformed", "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameter",
		"MissingParameter", "InvalidBlockDeviceMapping", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable",
		"InvalidAMIID.Malformed", "InvalidSubnetID.NotFound", "InvalidSubnet", "InvalidGroup.NotFound",
		"InvalidSecurityGroupID.NotFound", "InvalidKeyPair.NotFound", "InvalidSnapshot.NotFound",
		"InvalidKMSKey.InvalidState", "InvalidUserData", "InvalidTagKey.Malformed", "PendingVerification", "Blocked",
	}, c) {
		return true
	}
	return isDenied(c)
}

// isProfilePropagating says that EC2 does not know an instance profile yet, which takes IAM some seconds. "Value (x)
// for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name".
func isProfilePropagating(text string) bool {
	return strings.Contains(strings.ToLower(text), "iam instance profile") || strings.Contains(text, "iamInstanceProfile")
}
