package catalog

// RegionOffer is what EC2 offers in a region at one moment.
type RegionOffer struct {
	// Types are the instance types with the zones that have them, sorted by name.
	Types []Facts
	// OnDemand is USD per hour by instance type, the same in each zone.
	OnDemand map[string]float64
	// Dedicated is USD per hour by instance type, on demand with dedicated tenancy; types without an entry cost as much as with shared tenancy.
	Dedicated map[string]float64
	// Spot is USD per hour by zone and instance type.
	Spot map[string]map[string]float64
	// Rates are the prices of what nodes use beside their instances; nil for the built-in ones.
	Rates *Rates
}
