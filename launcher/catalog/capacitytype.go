package catalog

// CapacityType is what the planner and the launcher must know of a capacity type. How EC2 offers and launches it is in
// launcher/aws/capacitytype.go: a new capacity type is a row here and a row there.
type CapacityType struct {
	// Name is the value of the label karpenter.sh/capacity-type.
	Name string
	// Interruptible means that EC2 takes instances back at short notice. Pods of one class are distributed over such offerings, they
	// replace each other only where the user allows it, and they are not bought where an uninterruptible offering is cheaper.
	Interruptible bool
	// Counted means that EC2 counts the remaining instances of an offering, as it does for a capacity reservation. A launch that fails
	// says nothing that the count does not.
	Counted bool
	// EndsAs is the capacity type as which an instance runs on when its own ends. It is empty for a type that does not end.
	EndsAs string
	// Committed means that Savings Plans and Reserved Instances pay for its instances.
	Committed bool
	// Stops means that its instances can be stopped and started again: EC2 stops no spot instance of a one-time request.
	Stops bool
}

// CapacityTypes returns the capacity types in Karpenter's order: a launch buys the first one that has an offering.
func CapacityTypes() [3]CapacityType {
	return [...]CapacityType{
		{Name: "reserved", Counted: true, EndsAs: "on-demand", Committed: true},
		{Name: "spot", Interruptible: true},
		{Name: "on-demand", Committed: true, Stops: true},
	}
}

// CapacityTypeOf returns the capacity type with that name. One that is not known has its name alone.
func CapacityTypeOf(name string) CapacityType {
	for _, t := range CapacityTypes() {
		if t.Name == name {
			return t
		}
	}
	return CapacityType{Name: name}
}
