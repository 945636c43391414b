// Package cloud is what the launcher needs of a cloud, in the launcher's own words: a few calls, plain types and typed
// errors. Package launcher/aws implements it over EC2, SQS, SSM, IAM, EKS and Pricing; tests implement it in memory.
package cloud

import (
	"context"
	"fmt"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Cloud is every call that the launcher makes to a cloud. Implementations are safe for concurrent use, honour ctx, and
// answer with the errors of this package where their doc says so; any other error may be retried.
type Cloud interface {
	// Resolve reads what the class's selectors stand for now and returns the status to write: subnets, security
	// groups, AMIs, instance profile and the conditions SubnetsReady, SecurityGroupsReady, AMIsReady,
	// InstanceProfileReady and ValidationSucceeded, each False with a reason that tells the user what to fix.
	// It fails only where AWS could not be asked.
	Resolve(ctx context.Context, class *awsv1.EC2NodeClass) (awsv1.EC2NodeClassStatus, error)

	// InstanceTypes lists what can be launched from a resolved class, offerings with prices and availability included,
	// sorted by name. It answers from caches that Refresh keeps.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)

	// Changed is closed, and replaced, whenever offerings changed (prices, insufficient capacity and its end).
	Changed() <-chan struct{}

	// Refresh keeps the caches of instance types, prices and zones fresh until ctx ends.
	Refresh(ctx context.Context) error

	// Launch asks for one instance per claim, all equal, with one CreateFleet call of type instant and the launch id as client
	// token. It returns the ids of what EC2 launched, which may be fewer, with a reason for each offering that failed.
	// Errors: NodeClassError (the class cannot launch), LaunchError (a cause that passes), and others; all but the first may
	// be retried with the same launch id.
	Launch(ctx context.Context, in LaunchInput) (LaunchOutput, error)

	// Settled says that a launch will not be repeated: what is kept for that is forgotten.
	Settled(launchID string)

	// Instances describes the instances that sel selects and that carry this cluster's tag, terminated ones included
	// as long as EC2 shows them. EC2 is eventually consistent: an instance just launched may be missing.
	Instances(ctx context.Context, sel Selector) ([]Instance, error)

	// Tag writes tags on one instance. Errors: NotFoundError.
	Tag(ctx context.Context, instanceID string, tags map[string]string) error

	// Terminate ends instances; ids that EC2 does not know are ignored.
	Terminate(ctx context.Context, instanceIDs []string) error

	// Ailing lists the running instances of the account whose status checks fail or that EC2 has scheduled an event for, other
	// clusters' included.
	Ailing(ctx context.Context) ([]InstanceStatus, error)

	// Receive waits up to 20 s for interruption messages; nil without a queue name. A body that cannot be read comes as
	// a message with Err set.
	Receive(ctx context.Context) ([]Message, error)

	// Delete removes a message from the queue once its effect is recorded.
	Delete(ctx context.Context, receipt string) error

	// Sweep deletes what Launch and Resolve made and nobody needs any more: launch templates that no launch used for long,
	// instance profiles that no class has. It may be called often, and does nothing most of the times. What it has not seen
	// before counts as needed for a while, so that a process that just began to lead takes nothing away.
	Sweep(ctx context.Context) error

	// Release deletes what the cloud holds for a class that is going away and has no NodeClaim left: the instance
	// profile that Resolve created and the launch templates of Launch. What is gone already is no error.
	Release(ctx context.Context, class *awsv1.EC2NodeClass) error
}

// LaunchInput is one CreateFleet call.
type LaunchInput struct {
	// LaunchID is the client token of the call and the value of tag slipway.dev/launch on its instances.
	LaunchID string
	// Class to launch from, with its status resolved.
	Class *awsv1.EC2NodeClass
	// Claims of the call: equal in all that matters to EC2 (class, requirements, taints, labels); one instance each.
	Claims []*karpv1.NodeClaim
	// Options are the offerings that will do, cheapest first.
	Options []Option
	// Prioritized has EC2 take the options in their order as far as it can, instead of the cheapest (on-demand) or those with
	// the most spare capacity (spot): the prices are not EC2's.
	Prioritized bool
	// Tenancy of the instances: default, which empty means too, or dedicated.
	Tenancy string
	// Labels, Taints and StartupTaints that the kubelet registers with, slipway's own included.
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

// Option is one offering that will do.
type Option struct {
	// InstanceType such as m7g.large.
	InstanceType string
	// Zone such as us-east-1a.
	Zone string
	// CapacityType is reserved, spot or on-demand.
	CapacityType string
	// Price in USD per hour.
	Price float64
	// MaxPods that the kubelet is told, part of the launch template; 0 leaves it to the AMI.
	MaxPods int64
	// EFAs is how many network interfaces of type EFA the instance is to have: the claim asks for them; 0 is none.
	EFAs int64
	// Reservation is what a reserved option launches into; zero for all others.
	Reservation Reservation
}

// Reservation is an EC2 capacity reservation.
type Reservation struct {
	// ID such as cr-0123456789abcdef0.
	ID string
	// Type is default or capacity-block, as EC2 names them.
	Type string
	// Interruptible says that its owner lends it and may want it back.
	Interruptible bool
}

// LaunchOutput is what came of one CreateFleet call.
type LaunchOutput struct {
	// InstanceIDs that EC2 launched, at most one per claim.
	InstanceIDs []string
	// Failures by offering; each was remembered as unavailable where its reason is one of capacity.
	Failures []OfferingFailure
}

// OfferingFailure says why an offering gave no instance.
type OfferingFailure struct {
	// Option that failed.
	Option Option
	// Reason is the EC2 error code, such as InsufficientInstanceCapacity.
	Reason string
	// Message of EC2.
	Message string
	// Cause of the failure. One that Passing is no reason not to ask for the offering again.
	Cause Cause
	// Condition is one CamelCase word for the NodeClaim's condition, Karpenter's where it has one.
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

// Instance is what the launcher needs of an EC2 instance.
type Instance struct {
	// ID such as i-0123456789abcdef0.
	ID string
	// State of the instance.
	State InstanceState
	// InstanceType, Zone, ZoneID and CapacityType that EC2 chose.
	InstanceType, Zone, ZoneID, CapacityType string
	// Tenancy is default, dedicated or host.
	Tenancy string
	// ReservationID of the capacity reservation that it was launched into, where CapacityType is reserved.
	ReservationID string
	// ImageID of its AMI.
	ImageID string
	// SubnetID and SecurityGroupIDs of its first network interface; empty once it is terminated.
	SubnetID string
	// SecurityGroupIDs as above.
	SecurityGroupIDs []string
	// PrivateDNSName is the node's name with EKS's default.
	PrivateDNSName string
	// PrivateIP address, IPv4.
	PrivateIP string
	// LaunchTime by EC2's clock.
	LaunchTime time.Time
	// Tags by key.
	Tags map[string]string
}

// ProviderID is the Node's spec.providerID for the instance, as cloud-provider-aws writes it.
func (i Instance) ProviderID() string { return fmt.Sprintf("aws:///%s/%s", i.Zone, i.ID) }

// InstanceStatus is what is wrong with an instance, or will be.
type InstanceStatus struct {
	// ID such as i-0123456789abcdef0.
	ID string
	// SystemImpaired and InstanceImpaired are since when the check of the host, and that of the instance, fails; zero where it
	// does not.
	SystemImpaired, InstanceImpaired time.Time
	// Events that EC2 has scheduled and that are not over.
	Events []ScheduledEvent
}

// ScheduledEvent is an event that EC2 has scheduled for an instance.
type ScheduledEvent struct {
	// Code such as instance-retirement.
	Code string
	// Description of EC2.
	Description string
	// NotBefore is when it begins at the earliest.
	NotBefore time.Time
}

// Selector selects instances: by ids, by launch ids, or, where both are empty, all of the cluster's.
type Selector struct {
	// IDs of instances.
	IDs []string
	// LaunchIDs, the values of tag slipway.dev/launch.
	LaunchIDs []string
}

// MessageKind is what an interruption message tells.
type MessageKind string

// The kinds that EventBridge's EC2 and Health events are read as; their values are Karpenter's reason labels.
const (
	SpotInterrupted         MessageKind = "spot_interrupted"
	RebalanceRecommendation MessageKind = "rebalance_recommendation"
	CapacityReservation     MessageKind = "capacity_reservation_interrupted"
	ScheduledChange         MessageKind = "scheduled_change"
	InstanceStopped         MessageKind = "instance_stopped"
	InstanceTerminated      MessageKind = "instance_terminated"
	NoOp                    MessageKind = "no_op"
)

// Message is one message of the interruption queue.
type Message struct {
	// Receipt to delete it with.
	Receipt string
	// Kind of the event.
	Kind MessageKind
	// InstanceIDs it is about.
	InstanceIDs []string
	// Time of the event.
	Time time.Time
	// Err is set where the body could not be read: the message is counted, logged and deleted.
	Err error
}
