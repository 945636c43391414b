package catalog

// The reasons why EC2 launched no instance for a NodeClaim, of those that speak of its offerings and of nothing else: one
// CamelCase word each, as in the condition Launched.
const (
	// ReasonInsufficientCapacity: EC2 has none of the offerings now.
	ReasonInsufficientCapacity = "InsufficientCapacity"
	// ReasonInsufficientAddresses: the subnets of the offerings' zones have no address left.
	ReasonInsufficientAddresses = "InsufficientFreeAddressesInSubnet"
	// ReasonVCPULimit: the account may not have more vCPUs of the instance families.
	ReasonVCPULimit = "VCPULimitExceeded"
	// ReasonSpotQuota: the account may not have more spot instances.
	ReasonSpotQuota = "SpotQuotaExceeded"
	// ReasonFleetQuota: the account may not have more fleets.
	ReasonFleetQuota = "FleetQuotaExceeded"
	// ReasonQuota: the account may not have more of something that the instances need.
	ReasonQuota = "QuotaExceeded"
	// ReasonFreeTier: the account may launch no other instance types than those of the Free Tier.
	ReasonFreeTier = "FreeTierIneligible"
	// ReasonSpotRole: the account lacks the service-linked role of EC2 Spot.
	ReasonSpotRole = "SpotSLRCreationFailed"
)

// OfferingsFailed reports whether a launch failed for want of its offerings alone: another offering of the same NodePool may do.
func OfferingsFailed(reason string) bool {
	switch reason {
	case ReasonInsufficientCapacity, ReasonInsufficientAddresses, ReasonVCPULimit, ReasonSpotQuota, ReasonFleetQuota, ReasonQuota,
		ReasonFreeTier, ReasonSpotRole:
		return true
	}
	return false
}
