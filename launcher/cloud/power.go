package cloud

import (
	"context"
	"errors"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// Power stops instances and starts them again. Its calls return an error for each instance that was refused, by ID: NotFoundError or PowerError.
type Power interface {
	// StopInstances stops instances. They keep their volumes and addresses; one that is stopping or stopped stays so. Spot instances cannot stop. With
	// hibernate their memory is kept as well, for which they must have been launched; EC2 refuses it in the first minutes.
	StopInstances(ctx context.Context, ids []string, hibernate bool) map[string]error

	// NoHibernation returns why instances of the type that are launched from the class cannot hibernate; empty if they can. It answers from caches.
	NoHibernation(class *awsv1.EC2NodeClass, instanceType string) string

	// StartInstances starts stopped instances, for which EC2 promises no capacity; one that runs stays so. Of an instance that is refused for want of
	// capacity or for a quota, the offering is recorded as unavailable. It reads ID, InstanceType, Zone and CapacityType.
	StartInstances(ctx context.Context, instances []Instance) map[string]error
}

// PowerError means that an instance was not stopped, or not started.
type PowerError struct {
	// InstanceID of the instance.
	InstanceID string
	// Cause classifies the error. With CauseCapacity and CauseQuota another instance may be launched; CauseInvalid does not pass by itself.
	Cause Cause
	// Code is AWS's error code, or ec2error.NoAnswer.
	Code ec2error.Code
	// Reason is one CamelCase word for the NodeClaim's condition, Message a sentence.
	Reason, Message string
}

// Error returns the instance's ID and the cause.
func (e *PowerError) Error() string {
	return fmt.Sprintf("instance %s: %s: %s", e.InstanceID, e.Reason, e.Message)
}

// AsPower returns err as a PowerError, and whether it is one.
func AsPower(err error) (*PowerError, bool) {
	var e *PowerError
	ok := errors.As(err, &e)
	return e, ok
}
