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

// code returns AWS's error code, empty where err is none of AWS's.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return bare(api.ErrorCode())
	}
	return ""
}

// bare is a code without the side that EC2 sometimes names before it: fleets and spot requests answer with
// Server.InsufficientInstanceCapacity too.
func bare(c string) string {
	return strings.TrimPrefix(strings.TrimPrefix(c, "Server."), "Client.")
}

func message(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorMessage()
	}
	return err.Error()
}

// isCapacityCode says that an offering has no capacity now and may have later.
func isCapacityCode(c string) bool {
	return slices.Contains([]string{
		codeInsufficientInstanceCapacity, "InsufficientHostCapacity", "InsufficientCapacity", "InsufficientCapacityOnHost",
		"InsufficientReservedInstanceCapacity", "InsufficientVolumeCapacity", "InsufficientAddressCapacity", codeUnfulfillableCapacity,
		codeUnsupported, codeInsufficientFreeAddresses, codeInsufficientCidrBlocks, codeReservationCapacityExceeded, "SpotMaxPriceTooLow",
	}, c)
}

// isQuotaCode says that the account may not have more for now.
func isQuotaCode(c string) bool {
	return slices.Contains([]string{
		codeVcpuLimitExceeded, codeMaxSpotInstanceCountExceeded, codeMaxFleetCountExceeded, codeInstanceLimitExceeded,
		"MaxSpotFleetRequestCountExceeded", "SpotInstanceCountExceeded", "MaxIOPSLimitExceeded", "VolumeLimitExceeded",
		"RequestResourceCountExceeded", "PrivateIpAddressLimitExceeded", "NetworkInterfaceLimitExceeded",
	}, c)
}

// isAddressCode says that a subnet has no address, or no block of addresses, left.
func isAddressCode(c string) bool {
	return c == codeInsufficientFreeAddresses || c == codeInsufficientCidrBlocks
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
		"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "OptInRequired", "PendingVerification",
		"Blocked", "AccountDisabled", "UnauthorizedException", "InvalidClientTokenId", "UnrecognizedClientException",
	}, c)
}

// isThrottled says that there were too many requests.
func isThrottled(c string) bool {
	return slices.Contains([]string{
		"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"TooManyRequestsException", "RequestThrottledException", "EC2ThrottledException", "RequestThrottledOnHost",
	}, c)
}

// isTransient says that the same call may succeed a moment later.
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

// isParameterCode says that EC2 refuses what the class says: repeating it as it is cannot help.
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

// isProfilePropagating says that EC2 does not know an instance profile yet, which takes IAM some seconds. "Value (x)
// for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name".
func isProfilePropagating(text string) bool {
	return strings.Contains(strings.ToLower(text), "iam instance profile") || strings.Contains(text, "iamInstanceProfile")
}
