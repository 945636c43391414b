package ec2error

import (
	"slices"
	"strings"
)

// IsCapacity reports whether the code means that an offering has no capacity now and may have some later.
func (c Code) IsCapacity() bool {
	return slices.Contains([]Code{
		InsufficientInstanceCapacity, InsufficientHostCapacity, InsufficientCapacity, InsufficientCapacityOnHost,
		InsufficientReservedInstanceCapacity, InsufficientVolumeCapacity, InsufficientAddressCapacity, UnfulfillableCapacity,
		Unsupported, InsufficientFreeAddressesInSubnet, InsufficientCidrBlocks, ReservationCapacityExceeded, SpotMaxPriceTooLow,
	}, c)
}

// IsQuota reports whether the code means that the account has reached a quota.
func (c Code) IsQuota() bool {
	return slices.Contains([]Code{
		VcpuLimitExceeded, MaxSpotInstanceCountExceeded, MaxFleetCountExceeded, InstanceLimitExceeded,
		MaxSpotFleetRequestCountExceeded, SpotInstanceCountExceeded, MaxIOPSLimitExceeded, VolumeLimitExceeded,
		RequestResourceCountExceeded, PrivateIPAddressLimitExceeded, NetworkInterfaceLimitExceeded,
	}, c)
}

// BlamesRequest reports whether a spot fleet blames its request for a lack of capacity: "UnfulfillableCapacity: Unable to fulfill capacity due to
// your request configuration. Please adjust your request and try again.". It does so where another error of the same answer is the cause, too.
func (c Code) BlamesRequest(text string) bool {
	return c == UnfulfillableCapacity && strings.Contains(text, "due to your request configuration")
}

// OfOffering reports whether the code concerns offerings, so that another offering may succeed.
func (c Code) OfOffering() bool { return c.IsCapacity() || c.IsQuota() || c == SpotServiceLinkedRole }

// IsAddress reports whether the code means that a subnet has no free address, or no free block of addresses.
func (c Code) IsAddress() bool {
	return c == InsufficientFreeAddressesInSubnet || c == InsufficientCidrBlocks
}

// OfVolumes reports whether the code means that EC2 has no room for the volumes that an EC2NodeClass gives its instances, or that the account has reached a
// quota of them. Another class has other volumes.
func (c Code) OfVolumes() bool {
	return c == MaxIOPSLimitExceeded || c == VolumeLimitExceeded || c == InsufficientVolumeCapacity
}

// IsDenied reports whether the code means that the caller lacks a permission.
func (c Code) IsDenied() bool {
	return slices.Contains([]Code{
		UnauthorizedOperation, AccessDenied, "AccessDeniedException", AuthFailure, OptInRequired, PendingVerification,
		Blocked, AccountDisabled, "UnauthorizedException", InvalidClientTokenID, UnrecognizedClient,
	}, c)
}

// IsThrottled reports whether the code means that AWS throttled the request.
func (c Code) IsThrottled() bool {
	return slices.Contains([]Code{
		RequestLimitExceeded, "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"TooManyRequestsException", "RequestThrottledException", "EC2ThrottledException", "RequestThrottledOnHost",
	}, c)
}

// IsServersFault reports whether the code means that AWS failed, or gave no answer.
func (c Code) IsServersFault() bool {
	return slices.Contains([]Code{
		InternalError, "InternalFailure", ServiceUnavailable, "Unavailable", "RequestTimeout", "InternalServiceError", NoAnswer,
	}, c)
}

// IsStale reports whether the code means that AWS could not take the caller's credentials as they were when the call was made: the token or the
// signature had expired, or STS could not reach the issuer of the token. A later call has others (STS API reference, "AssumeRoleWithWebIdentity",
// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html; EC2 API reference, "Common client error codes").
func (c Code) IsStale() bool {
	return slices.Contains([]Code{
		"IDPCommunicationError", "InvalidIdentityToken", "ExpiredTokenException", "ExpiredToken", "RequestExpired",
	}, c)
}

// IsTemplateGone reports whether the code means that a launch template does not exist. "InvalidLaunchTemplateName.NotFoundException: The
// specified launch template, with template name X, does not exist.".
func (c Code) IsTemplateGone() bool {
	return strings.HasPrefix(string(c), "InvalidLaunchTemplateName.NotFound") || strings.HasPrefix(string(c), "InvalidLaunchTemplateId.NotFound")
}

// IsInstanceUnknown reports whether the code means that an instance does not exist. "InvalidInstanceID.NotFound: The instance ID 'i-x' does
// not exist.".
func (c Code) IsInstanceUnknown() bool {
	return c == "InvalidInstanceID.NotFound" || c == "InvalidInstanceID.Malformed"
}

// IsParameter reports whether the code means that EC2 rejects a setting of the class: the same call fails again.
func (c Code) IsParameter() bool {
	return slices.Contains([]Code{
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
