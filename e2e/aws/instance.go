package aws

import (
	"maps"
	"time"
)

// The states of an instance, as EC2 names them.
const (
	// StatePending is before the machine starts.
	StatePending = "pending"
	// StateRunning is while the machine runs.
	StateRunning = "running"
	// StateStopping is while it is switched off.
	StateStopping = "stopping"
	// StateStopped is when it is switched off: its volumes and its addresses stay.
	StateStopped = "stopped"
	// StateShuttingDown is while it ends.
	StateShuttingDown = "shutting-down"
	// StateTerminated is when it has ended.
	StateTerminated = "terminated"
)

// The capacity types, as Karpenter names them.
const (
	// Spot capacity can be interrupted.
	Spot = "spot"
	// OnDemand capacity cannot.
	OnDemand = "on-demand"
)

// Instance is a copy of an instance at a moment.
type Instance struct {
	// ID is the instance's, such as i-0123456789abcdef0.
	ID string
	// Type is such as m7g.large.
	Type string
	// Zone is such as us-east-1a, ZoneID such as use1-az1.
	Zone, ZoneID string
	// Architecture is EC2's name: x86_64 or arm64.
	Architecture string
	// ImageID is that of its AMI, Windows whether that runs Windows.
	ImageID string
	Windows bool
	// CapacityType is Spot or OnDemand.
	CapacityType string
	// PrivateDNSName and PrivateIP are set after its end as well, when EC2 no longer lists them.
	PrivateDNSName, PrivateIP string
	// IPv6 is the first IPv6 address of its primary network interface, set after its end as well; empty for none.
	IPv6 string
	// UserData is decoded.
	UserData string
	// LaunchTemplateName is empty where it was launched without a template.
	LaunchTemplateName string
	// VCPU is the number of virtual processors.
	VCPU int
	// MemoryMiB is its memory.
	MemoryMiB int64
	// GPUs counts GPUs, Neuron devices or other accelerators.
	GPUs int
	// GPUManufacturer is such as NVIDIA or AWS; empty without.
	GPUManufacturer string
	// EFAs is the number of its network interfaces that are Elastic Fabric Adapters.
	EFAs int
	// MaxENIs is the number of network interfaces of the default network card.
	MaxENIs int
	// IPv4PerENI is the number of addresses of each.
	IPv4PerENI int
	// LocalStorageGiB is the size of its instance store, RootVolumeGiB of its largest EBS volume.
	LocalStorageGiB, RootVolumeGiB int64
	// State is one of EC2's, such as StateRunning.
	State string
	// FailJoin makes its machine fail before it joins the cluster.
	FailJoin bool
	// LaunchTime is when the request arrived that launched or last started it.
	LaunchTime time.Time
	// Starts is how often it was started after a stop.
	Starts int
	// Hibernates means that it was launched with hibernation configured.
	Hibernates bool
	// Hibernated means that its last stop was a hibernation: its next start goes on from there.
	Hibernated bool
	// Context is that of the fleet that launched it; empty for none.
	Context string
	// Tags are its tags.
	Tags map[string]string
	// Price is the price at its launch, in USD per hour.
	Price float64
}

func (i Instance) clone() Instance {
	i.Tags = maps.Clone(i.Tags)
	return i
}

// Live reports whether it is pending or running, for which EC2 bills its time.
func (i Instance) Live() bool { return i.State == StatePending || i.State == StateRunning }

// Asleep reports whether it is stopping or stopped: its volumes cost money.
func (i Instance) Asleep() bool { return i.State == StateStopping || i.State == StateStopped }

// Call is an API call that arrived.
type Call struct {
	// At is the time of arrival.
	At time.Time
	// Service is that of the signature's scope, for example ec2.
	Service string
	// Action is such as CreateFleet; for EKS it is method and path.
	Action string
	// AccessKey is the one that signed it.
	AccessKey string
	// Error is AWS's code; empty where the call succeeded.
	Error string
	// ClientToken is that of CreateFleet and RunInstances.
	ClientToken string
	// Asked and Launched are the numbers of requested and launched instances of CreateFleet and RunInstances.
	Asked, Launched int
}
