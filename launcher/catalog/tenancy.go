package catalog

// The tenancies of instances (EC2 user guide, "Amazon EC2 Dedicated Instances"), as LabelInstanceTenancy has them.
const (
	TenancyDefault   = "default"
	TenancyDedicated = "dedicated"
)

// Tenancy that requirements ask for: default wherever they allow it, as in Karpenter.
func Tenancy(reqs Requirements) string {
	set, restricted := reqs[LabelInstanceTenancy]
	if restricted && !set.Has(TenancyDefault) && set.Has(TenancyDedicated) {
		return TenancyDedicated
	}
	return TenancyDefault
}

// PoolTenancy is the tenancy of a NodePool's nodes. Every instance type comes in both: the pool decides, so that this is a
// label of the pool. Requirements that cannot be read, or leave neither, decide nothing.
func PoolTenancy(list []Requirement) string {
	reqs, err := NewRequirements(list)
	if err != nil {
		return TenancyDefault
	}
	return Tenancy(reqs)
}
