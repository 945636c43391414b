package aws

import (
	"errors"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
)

// These are the error codes of EC2 that the launcher handles (EC2 API reference, "Error codes for the Amazon EC2 API").
const (
	codeInsufficientInstanceCapacity = "InsufficientInstanceCapacity"
	codeUnfulfillableCapacity        = "UnfulfillableCapacity"
	codeUnsupported                  = "Unsupported"
	codeVcpuLimitExceeded            = "VcpuLimitExceeded"
	codeMaxSpotInstanceCountExceeded = "MaxSpotInstanceCountExceeded"
	codeMaxFleetCountExceeded        = "MaxFleetCountExceeded"
	codeInstanceLimitExceeded        = "InstanceLimitExceeded"
	codeInsufficientFreeAddresses    = "InsufficientFreeAddressesInSubnet"
	codeInsufficientCidrBlocks       = "InsufficientCidrBlocks"
	codeReservationCapacityExceeded  = "ReservationCapacityExceeded"
	codeSpotServiceLinkedRole        = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
)

// code returns AWS's error code, or "" if err is not an AWS error.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return bare(api.ErrorCode())
	}
	return ""
}

// bare returns the code without the prefix "Server." or "Client.": fleets and spot requests answer with Server.InsufficientInstanceCapacity
// too.
func bare(c string) string {
	return strings.TrimPrefix(strings.TrimPrefix(c, "Server."), "Client.")
}

func message(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorMessage()
	}
	return err.Error()
}

// isCapacityCode reports whether the code means that an offering has no capacity now and may have some later.
func isCapacityCode(c string) bool {
	return slices.Contains([]string{
		codeInsufficientInstanceCapacity, "InsufficientHostCapacity", "InsufficientCapacity", "InsufficientCapacityOnHost",
		"InsufficientReservedInstanceCapacity", "InsufficientVolumeCapacity", "InsufficientAddressCapacity", codeUnfulfillableCapacity,
		codeUnsupported, codeInsufficientFreeAddresses, codeInsufficientCidrBlocks, codeReservationCapacityExceeded, "SpotMaxPriceTooLow",
	}, c)
}

// isQuotaCode reports whether the code means that the account has reached a quota.
func isQuotaCode(c string) bool {
	return slices.Contains([]string{
		codeVcpuLimitExceeded, codeMaxSpotInstanceCountExceeded, codeMaxFleetCountExceeded, codeInstanceLimitExceeded,
		"MaxSpotFleetRequestCountExceeded", "SpotInstanceCountExceeded", "MaxIOPSLimitExceeded", "VolumeLimitExceeded",
		"RequestResourceCountExceeded", "PrivateIpAddressLimitExceeded", "NetworkInterfaceLimitExceeded",
	}, c)
}

// isAddressCode reports whether the code means that a subnet has no free address, or no free block of addresses.
func isAddressCode(c string) bool {
	return c == codeInsufficientFreeAddresses || c == codeInsufficientCidrBlocks
}

// isTemplateGone reports whether the code means that a launch template does not exist. "InvalidLaunchTemplateName.NotFoundException: The
// specified launch template, with template name X, does not exist.".
func isTemplateGone(c string) bool {
	return strings.HasPrefix(c, "InvalidLaunchTemplateName.NotFound") || strings.HasPrefix(c, "InvalidLaunchTemplateId.NotFound")
}

// isTemplateThere reports whether a launch template of that name exists already.
func isTemplateThere(err error) bool {
	return strings.HasPrefix(code(err), "InvalidLaunchTemplateName.AlreadyExists")
}

// isInstanceUnknown reports whether the code means that an instance does not exist. "InvalidInstanceID.NotFound: The instance ID 'i-x' does
// not exist.".
func isInstanceUnknown(c string) bool {
	return c == "InvalidInstanceID.NotFound" || c == "InvalidInstanceID.Malformed"
}

// isAbsent reports whether the named entity does not exist in IAM, SSM or EKS.
func isAbsent(err error) bool {
	return slices.Contains([]string{
		"NoSuchEntity", "ParameterNotFound", "ParameterVersionNotFound", "ResourceNotFoundException",
	}, code(err))
}

// isQueueGone reports whether the SQS queue does not exist.
func isQueueGone(err error) bool {
	c := code(err)
	return strings.HasSuffix(c, "NonExistentQueue") || strings.HasSuffix(c, "QueueDoesNotExist")
}

// isThere reports whether IAM has an entity of that name already.
func isThere(err error) bool { return code(err) == "EntityAlreadyExists" }

// isDenied reports whether the code means that the caller lacks a permission.
func isDenied(c string) bool {
	return slices.Contains([]string{
		"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "OptInRequired", "PendingVerification",
		"Blocked", "AccountDisabled", "UnauthorizedException", "InvalidClientTokenId", "UnrecognizedClientException",
	}, c)
}

// isThrottled reports whether the code means that AWS throttled the request.
func isThrottled(c string) bool {
	return slices.Contains([]string{
		"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"TooManyRequestsException", "RequestThrottledException", "EC2ThrottledException", "RequestThrottledOnHost",
	}, c)
}

// isTransient reports whether the same call may succeed a moment later.
func isTransient(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return true
	}
	return api.ErrorFault() == smithy.FaultServer || isThrottled(code(err)) || isServersFault(code(err))
}

func isServersFault(c string) bool {
	return slices.Contains([]string{
		"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout", "InternalServiceError",
	}, c)
}

// isParameterCode reports whether the code means that EC2 rejects a setting of the class: the same call fails again.
func isParameterCode(c string) bool {
	return slices.Contains([]string{
		"InvalidUserData.Malformed", "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameter", "InvalidInput",
		"MissingParameter", "UnknownParameter", "InvalidBlockDeviceMapping", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable",
		"InvalidAMIID.Malformed", "InvalidSubnetID.NotFound", "InvalidSubnetID.Malformed", "InvalidSubnet", "InvalidGroup.NotFound",
		"InvalidSecurityGroupID.NotFound", "InvalidSecurityGroupID.Malformed", "InvalidSecurity.RequestHasExpired",
		"InvalidKeyPair.NotFound", "InvalidSnapshot.NotFound", "InvalidSnapshotID.Malformed", "InvalidKMSKey.InvalidState",
		"KMSKeyNotAccessibleFault", "InvalidUserData", "InvalidTagKey.Malformed", "InvalidTagValue.Malformed", "TagLimitExceeded",
		"InvalidNetworkInterface.NotFound", "InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationState",
		"InvalidPlacementGroup.Unknown", "UnsupportedOperation", "InvalidInstanceType", "InvalidVolume.ZoneMismatch",
		"SecurityGroupsPerInterfaceLimitExceeded", "InvalidIamInstanceProfileArn.Malformed", "VPCIdNotSpecified", "InvalidFleetConfiguration",
		"InvalidFleetConfig",
	}, c)
}

// isProfilePropagating reports whether EC2 cannot use an instance profile yet: a new one takes IAM some seconds to propagate. "Value (x) for
// parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name".
func isProfilePropagating(text string) bool {
	return strings.Contains(strings.ToLower(text), "iam instance profile") || strings.Contains(text, "iamInstanceProfile")
}
