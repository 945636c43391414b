// Package cloud defines the launcher's interface to a cloud: a few calls, plain types and typed errors. Package launcher/aws implements it
// with EC2, SQS, SSM, IAM, EKS and Pricing; tests implement it in memory.
package cloud

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// Cloud holds every call that the launcher makes to a cloud. Implementations are safe for concurrent use, obey ctx, and return the errors of
// this package where a method's doc names them; any other error may be retried.
type Cloud interface {
	Power

	// Resolve evaluates the class's selectors and returns the status to write: subnets, security groups, AMIs, instance profile and the
	// conditions SubnetsReady, SecurityGroupsReady, AMIsReady, InstanceProfileReady and ValidationSucceeded, each False with a reason that
	// says what to fix. It returns an error only if AWS could not be reached.
	Resolve(ctx context.Context, class *awsv1.EC2NodeClass) (awsv1.EC2NodeClassStatus, error)

	// InstanceTypes lists what can be launched from a resolved class, offerings with prices and availability included, sorted by name. An
	// offering without a known price is left out. It answers from caches that Refresh updates.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)

	// AllInstanceTypes lists what EC2 offers for a resolved class: InstanceTypes, and what is left out there because its price is not known. Such
	// an offering has the price 0 and is not available. The list is for questions about nodes that exist; nothing is bought from it.
	AllInstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)

	// Rates returns the prices of what nodes use beside their instances, with which InstanceTypes has Charges; nil for the built-in ones. The caller does not
	// change them.
	Rates() *catalog.Rates

	// Changed returns a channel that is closed, and replaced, whenever offerings change (prices, insufficient capacity and its end).
	Changed() <-chan struct{}

	// Refresh keeps the caches of instance types, prices and zones up to date until ctx ends.
	Refresh(ctx context.Context) error

	// Launch requests one instance per claim, all equal, with one CreateFleet call of type instant and the launch ID as client token. It
	// returns the IDs of the launched instances, which may be fewer, with a reason for each offering that failed. It requests fewer where a
	// subnet has too few addresses and the zone has another one; the caller launches the rest with another launch ID. Errors: NodeClassError
	// (the class cannot launch), LaunchError (a transient cause), and others; all but the first may be retried with the same launch ID.
	Launch(ctx context.Context, in LaunchInput) (LaunchOutput, error)

	// Settled declares that a launch will not be repeated: the data kept for a repetition is dropped.
	Settled(launchID string)

	// Instances describes the instances that sel selects. Those that are not selected by their IDs have this cluster's tag. Terminated ones are included as long as EC2
	// returns them. EC2 is eventually consistent: an instance just launched may be missing.
	Instances(ctx context.Context, sel Selector) ([]Instance, error)

	// Tag writes tags on one instance. Errors: NotFoundError.
	Tag(ctx context.Context, instanceID string, tags map[string]string) error

	// Terminate terminates instances; IDs that do not exist are ignored. Errors: a TerminationError for each instance that EC2 refuses to
	// terminate, joined, while all others are terminated; and others, which are about the whole call.
	Terminate(ctx context.Context, instanceIDs []string) error

	// ShiftedZones returns the IDs of the zones that a zonal shift of the cluster is away from. EC2 may not show the instances in such a zone, and calls
	// for them fail. known is false until AWS has answered for the first time: then an instance that EC2 does not show may be in such a zone.
	ShiftedZones() (zones map[string]bool, known bool)

	// Impaired lists the account's running instances whose status checks fail or for which EC2 has scheduled an event, including those of
	// other clusters.
	Impaired(ctx context.Context) ([]InstanceStatus, error)

	// BlockEnd returns when a Capacity Block ends; zero if there is no such block.
	BlockEnd(ctx context.Context, reservationID string) (time.Time, error)

	// Receive waits up to 20 s for interruption messages; nil without a queue name. A body that cannot be parsed becomes a message with Err
	// set.
	Receive(ctx context.Context) ([]Message, error)

	// Delete removes a message from the queue once its effect is recorded.
	Delete(ctx context.Context, receipt string) error

	// Sweep deletes unused resources that Launch and Resolve created: launch templates that no launch has used for long, and instance
	// profiles without a class. It may be called often, and mostly does nothing. A resource seen for the first time counts as used for a
	// while, so that a new leader deletes nothing that is in use.
	Sweep(ctx context.Context) error

	// Release deletes the cloud's resources of a class that is being deleted and has no NodeClaim left: the instance profile that Resolve
	// created and the launch templates of Launch. A resource that does not exist is not an error.
	Release(ctx context.Context, class *awsv1.EC2NodeClass) error
}

// LaunchInput is one CreateFleet call.
type LaunchInput struct {
	// LaunchID is the client token of the call and the value of tag slipway.dev/launch on its instances.
	LaunchID string
	// Class to launch from, with its status resolved.
	Class *awsv1.EC2NodeClass
	// Claims are those of the call, with one instance each. They are equal in all that matters to EC2 (class, requirements, taints, labels).
	Claims []*karpv1.NodeClaim
	// Options are the acceptable offerings, cheapest first.
	Options []Option
	// Prioritized makes EC2 try the options in their order as far as it can, instead of taking the cheapest (on-demand) or those with the
	// most spare capacity (spot). It is set if the prices are not EC2's.
	Prioritized bool
	// Tenancy is that of the instances: dedicated or default; empty means default.
	Tenancy string
	// Partition is the number of the partition of the class's placement group; 0 leaves it to EC2.
	Partition int32
	// Hibernate configures the instances for hibernation, those of offerings that can (NoHibernation).
	Hibernate bool
	// Labels are those that the kubelet registers with, slipway's own included.
	Labels map[string]string
	// Taints that the kubelet registers with: permanent, start-up and slipway's own.
	Taints []Taint
}

// Taint is a node taint as key, value and effect.
type Taint struct {
	// Key of the taint.
	Key string
	// Value of the taint; may be empty.
	Value string
	// Effect: NoSchedule, PreferNoSchedule or NoExecute.
	Effect string
}

// Option is one acceptable offering.
type Option struct {
	// InstanceType such as m7g.large.
	InstanceType string
	// Zone such as us-east-1a.
	Zone string
	// CapacityType is reserved, spot or on-demand.
	CapacityType string
	// Price in USD per hour.
	Price float64
	// MaxPods is passed to the kubelet and is part of the launch template; 0 leaves it to the AMI.
	MaxPods int64
	// EFAs is the number of network interfaces of type EFA that the claim requests; 0 means none.
	EFAs int64
	// Reservation is the capacity reservation of a reserved option; zero for all others.
	Reservation Reservation
	// PlacementGroup is the ID of the class's placement group; empty for none.
	PlacementGroup string
}

// Reservation is an EC2 capacity reservation.
type Reservation struct {
	// ID such as cr-0123456789abcdef0.
	ID string
	// Type is default or capacity-block, as EC2 names them.
	Type string
	// Interruptible means that its owner lends it and may reclaim it.
	Interruptible bool
}

// LaunchOutput is the result of one CreateFleet call.
type LaunchOutput struct {
	// InstanceIDs that EC2 launched, at most one per claim.
	InstanceIDs []string
	// Failures are the failed offerings; each was recorded as unavailable if its reason is a lack of capacity, or if EC2 refused it by name.
	Failures []OfferingFailure
}

// OfferingFailure is the reason why an offering gave no instance.
type OfferingFailure struct {
	// Option that failed.
	Option Option
	// Reason is the EC2 error code, such as InsufficientInstanceCapacity.
	Reason ec2error.Code
	// Message is EC2's text.
	Message string
	// Since is when EC2 refused the offering first without a launch in between, Attempts how often it has since then; zero if the code is
	// not one of offerings.
	Since time.Time
	// Attempts is 1 for the first refusal.
	Attempts int
	// Cause classifies the failure. If it is Passing, the same offering may be requested again.
	Cause Cause
	// Condition is one CamelCase word for the NodeClaim's condition, Karpenter's if it has one.
	Condition string
}

// InstanceState is an EC2 instance state name.
type InstanceState string

// The states of EC2 (API reference, InstanceState).
const (
	StatePending      InstanceState = "pending"
	StateRunning      InstanceState = "running"
	StateStopping     InstanceState = "stopping"
	StateStopped      InstanceState = "stopped"
	StateShuttingDown InstanceState = "shutting-down"
	StateTerminated   InstanceState = "terminated"
)

// Instance holds the fields of an EC2 instance that the launcher needs.
type Instance struct {
	// ID such as i-0123456789abcdef0.
	ID string
	// State of the instance.
	State InstanceState
	// InstanceType, Zone, ZoneID and CapacityType that EC2 chose.
	InstanceType, Zone, ZoneID, CapacityType string
	// Tenancy is default, dedicated or host.
	Tenancy string
	// PlacementGroupID is that of its placement group, empty for none; Partition is the number of its partition there, 0 for none.
	PlacementGroupID string
	// Partition number in the placement group.
	Partition int32
	// ReservationID is the capacity reservation that it was launched into, if CapacityType is reserved.
	ReservationID string
	// ReservationType and ReservationInterruptible are those of its capacity reservation; empty and false if it is in none.
	ReservationType string
	// ReservationInterruptible means that the owner of the reservation may reclaim the instance.
	ReservationInterruptible bool
	// ImageID of its AMI.
	ImageID string
	// EFAs is the number of its network interfaces of type efa or efa-only; 0 once it is terminated.
	EFAs int64
	// SubnetID is that of its first network interface; empty once it is terminated.
	SubnetID string
	// SecurityGroupIDs are those of its first network interface; empty once it is terminated.
	SecurityGroupIDs []string
	// PrivateDNSName is the node's name with EKS's default settings.
	PrivateDNSName string
	// PrivateIP is the address of the node: IPv6 in an IPv6 cluster, otherwise the private IPv4 address.
	PrivateIP string
	// PublicIP is its public IPv4 address, PublicDNSName the name of that; empty without one, before EC2 shows it, and in an IPv6 cluster, whose
	// Nodes have no addresses of IPv4.
	PublicIP, PublicDNSName string
	// Hibernates means that it was launched with hibernation configured, Hibernated that its last stop was one.
	Hibernates, Hibernated bool
	// StateReason is why EC2, or a user, changed the state last; zero if EC2 gives no reason.
	StateReason StateReason
	// LaunchTime by EC2's clock.
	LaunchTime time.Time
	// Tags by key.
	Tags map[string]string
}

// StateReason is EC2's reason of an instance's state.
type StateReason struct {
	// Code such as Client.InternalError, with its prefix.
	Code string
	// Message is EC2's text.
	Message string
}

// String returns EC2's text, which begins with the code as a rule; empty for no reason.
func (r StateReason) String() string {
	if r.Message == "" || strings.HasPrefix(r.Message, r.Code) {
		return cmp.Or(r.Message, r.Code)
	}
	return r.Code + ": " + r.Message
}

// ProviderID returns the Node's spec.providerID for the instance, in the format of cloud-provider-aws.
func (i Instance) ProviderID() string { return fmt.Sprintf("aws:///%s/%s", i.Zone, i.ID) }

// InstanceStatus holds an instance's failed status checks and scheduled events.
type InstanceStatus struct {
	// ID such as i-0123456789abcdef0.
	ID string
	// SystemImpaired and InstanceImpaired are the times since which the check of the host, and that of the instance, has failed; zero if it
	// has not.
	SystemImpaired, InstanceImpaired time.Time
	// Events are those that EC2 has scheduled and that are not over.
	Events []ScheduledEvent
}

// ScheduledEvent is an event that EC2 has scheduled for an instance.
type ScheduledEvent struct {
	// Code such as instance-retirement.
	Code string
	// Description is EC2's text.
	Description string
	// NotBefore is the earliest time of the event.
	NotBefore time.Time
}

// Selector selects instances: by IDs, by launch IDs, or, if both are empty, all of the cluster's.
type Selector struct {
	// IDs of instances.
	IDs []string
	// LaunchIDs, the values of tag slipway.dev/launch.
	LaunchIDs []string
}

// MessageKind is the kind of event in an interruption message.
type MessageKind string

// The kinds of EventBridge's EC2 and Health events; their values are Karpenter's reason labels.
const (
	SpotInterrupted         MessageKind = "spot_interrupted"
	RebalanceRecommendation MessageKind = "rebalance_recommendation"
	CapacityReservation     MessageKind = "capacity_reservation_interrupted"
	ScheduledChange         MessageKind = "scheduled_change"
	InstanceStopped         MessageKind = "instance_stopped"
	InstanceTerminated      MessageKind = "instance_terminated"
	NoOp                    MessageKind = "no_op"
)

// EndsInstance reports whether EC2 takes the instance away, whatever its pods need.
func (k MessageKind) EndsInstance() bool {
	return k == SpotInterrupted || k == CapacityReservation || k == InstanceStopped || k == InstanceTerminated
}

// Message is one message of the interruption queue.
type Message struct {
	// Receipt identifies the message for Delete.
	Receipt string
	// Kind of the event.
	Kind MessageKind
	// InstanceIDs it is about.
	InstanceIDs []string
	// Time of the event.
	Time time.Time
	// Err is set if the body could not be parsed: the message is counted, logged and deleted.
	Err error
}
