package catalog

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
)

// OfferingsFailed reports whether a launch failed because of its offerings alone: another offering of the same NodePool may succeed.
func OfferingsFailed(reason string) bool {
	switch reason {
	case ReasonInsufficientCapacity, ReasonInsufficientAddresses, ReasonVCPULimit, ReasonSpotQuota, ReasonFleetQuota, ReasonQuota,
		ReasonFreeTier, ReasonSpotRole:
		return true
	}
	return false
}
