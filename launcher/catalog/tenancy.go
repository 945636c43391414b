package catalog

// The tenancies of instances (EC2 user guide, "Amazon EC2 Dedicated Instances"), as in the values of LabelInstanceTenancy.
const (
	TenancyDefault   = "default"
	TenancyDedicated = "dedicated"
)

// DedicatedFee is what AWS charges for each hour in which the account runs an instance of dedicated tenancy in the region, in USD, however many there are
// (Amazon EC2 Dedicated Instances pricing, "Dedicated per region fee", aws.amazon.com/ec2/pricing/dedicated-instances, November 2026).
const DedicatedFee = 2.0

// DedicatedShare returns by how much an instance of dedicated tenancy is more expensive at these prices in USD per hour; 0 if one of them is not known, or
// if dedicated tenancy is not more expensive.
func DedicatedShare(shared, dedicated float64) float64 {
	if shared <= 0 || dedicated <= shared {
		return 0
	}
	return dedicated/shared - 1
}

// Tenancy returns the tenancy that requirements select: default if they allow it, as in Karpenter.
func Tenancy(reqs Requirements) string {
	set, restricted := reqs[LabelInstanceTenancy]
	if restricted && !set.Has(TenancyDefault) && set.Has(TenancyDedicated) {
		return TenancyDedicated
	}
	return TenancyDefault
}

// PoolTenancy returns the tenancy of a NodePool's nodes. Every instance type comes in both tenancies: the pool decides, so the tenancy is
// one of the pool's labels. It returns "" if the requirements cannot be parsed or allow neither.
func PoolTenancy(list []Requirement) string {
	reqs, err := NewRequirements(list)
	if err != nil {
		return TenancyDefault
	}
	return Tenancy(reqs)
}
