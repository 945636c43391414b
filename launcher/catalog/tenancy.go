package catalog

// The tenancies of instances (EC2 user guide, "Amazon EC2 Dedicated Instances"), as in the values of LabelInstanceTenancy.
const (
	TenancyDefault   = "default"
	TenancyDedicated = "dedicated"
)

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
