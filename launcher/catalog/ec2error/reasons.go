package ec2error

import "slices"

// The reasons in the condition Launched, one CamelCase word each, that mean that EC2 launched no instance because of the NodeClaim's
// offerings alone.
const (
	// ReasonInsufficientCapacity means that EC2 has none of the offerings now.
	ReasonInsufficientCapacity = "InsufficientCapacity"
	// ReasonInsufficientAddresses means that the subnets of the offerings' zones have no free address.
	ReasonInsufficientAddresses = "InsufficientFreeAddressesInSubnet"
	// ReasonVCPULimit means that the account reached its vCPU limit for the instance families.
	ReasonVCPULimit = "VCPULimitExceeded"
	// ReasonSpotQuota means that the account reached its limit of spot instances.
	ReasonSpotQuota = "SpotQuotaExceeded"
	// ReasonFleetQuota means that the account reached its limit of fleets.
	ReasonFleetQuota = "FleetQuotaExceeded"
	// ReasonQuota means that the account reached its limit of something else that the instances need.
	ReasonQuota = "QuotaExceeded"
	// ReasonFreeTier means that the account may launch only the instance types of the Free Tier.
	ReasonFreeTier = "FreeTierIneligible"
	// ReasonSpotRole means that the account lacks the service-linked role of EC2 Spot.
	ReasonSpotRole = "SpotSLRCreationFailed"
	// ReasonInstanceTypeRefused means that EC2 refuses the instance types to the EC2NodeClass, by name: a policy denies them, or the class asks for
	// what they cannot have.
	ReasonInstanceTypeRefused = "InstanceTypeRefused"
)

const (
	// ReasonLaunchPending is the reason of the condition Launched, and of Events, while attempts end in errors that may pass.
	ReasonLaunchPending = "LaunchPending"
	// ReasonLaunchTimeout means that a NodeClaim waited too long.
	ReasonLaunchTimeout = "LaunchTimeout"
	// EventInsufficientCapacity is Karpenter's Event for a lack of capacity, of addresses and of quota.
	EventInsufficientCapacity = "InsufficientCapacityError"
	// NoInstance begins the message about offerings that EC2 refused; the code follows.
	NoInstance = "EC2 launched no instance: "
)

// IsLaunchEvent reports whether an Event about a NodeClaim with this reason means that EC2 did not launch it.
func IsLaunchEvent(reason string) bool {
	return OfferingsFailed(reason) || slices.Contains([]string{
		EventInsufficientCapacity, ReasonLaunchTimeout, "Unauthorized", "AccountPendingVerification", "AMIAuthorizationFailure", "LaunchFailed",
		"MinValuesNotMet",
	}, reason)
}

// HeldByLauncher reports whether the launcher alone decides when the offerings of a launch that failed for the reason are tried again. Without
// the role of EC2 Spot no spot offering of the account works. An instance type that EC2 refuses to one EC2NodeClass may be launched from others.
func HeldByLauncher(reason string) bool {
	return reason == ReasonSpotRole || reason == ReasonInstanceTypeRefused
}

// OfferingsFailed reports whether a launch failed because of its offerings alone: another offering of the same NodePool may succeed.
func OfferingsFailed(reason string) bool {
	switch reason {
	case ReasonInsufficientCapacity, ReasonInsufficientAddresses, ReasonVCPULimit, ReasonSpotQuota, ReasonFleetQuota, ReasonQuota,
		ReasonFreeTier, ReasonSpotRole, ReasonInstanceTypeRefused:
		return true
	}
	return false
}

// Reason returns the reason in the condition Launched for a code of offerings; "" for other codes.
func (c Code) Reason() string {
	switch {
	case c.IsAddress():
		return ReasonInsufficientAddresses
	case c.IsCapacity(), c == ZonalShift:
		return ReasonInsufficientCapacity
	case c == SpotServiceLinkedRole:
		return ReasonSpotRole
	case c == VcpuLimitExceeded, c == InstanceLimitExceeded:
		return ReasonVCPULimit
	case c == MaxSpotInstanceCountExceeded, c == SpotInstanceCountExceeded:
		return ReasonSpotQuota
	case c == MaxFleetCountExceeded, c == MaxSpotFleetRequestCountExceeded:
		return ReasonFleetQuota
	case c.IsQuota():
		return ReasonQuota
	}
	return ""
}
